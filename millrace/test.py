"""`tf.test`."""

from unittest import mock

from millrace.testing.benchmark import Benchmark, benchmark_config
from millrace.testing.environment import (
    get_temp_dir,
    gpu_device_name,
    is_built_with_cuda,
    is_built_with_gpu_support,
    is_built_with_rocm,
    is_built_with_xla,
    is_gpu_available,
    test_src_dir_path,
)
from millrace.testing.gradient_checker import compute_gradient, compute_gradient_error
from millrace.testing.graph_comparison import assert_equal_graph_def
from millrace.testing.local_cluster import create_local_cluster
from millrace.testing.main import main
from millrace.testing.stubs import StubOutForTesting
from millrace.testing.test_case import TestCase

__all__ = [
    "Benchmark",
    "StubOutForTesting",
    "TestCase",
    "assert_equal_graph_def",
    "benchmark_config",
    "compute_gradient",
    "compute_gradient_error",
    "create_local_cluster",
    "get_temp_dir",
    "gpu_device_name",
    "is_built_with_cuda",
    "is_built_with_gpu_support",
    "is_built_with_rocm",
    "is_built_with_xla",
    "is_gpu_available",
    "main",
    "mock",
    "test_src_dir_path",
]
