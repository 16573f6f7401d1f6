"""What programs take from TensorFlow's python.framework.test_util that has no public name."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from millrace.graph.behavior import disable_control_flow_v2, enable_control_flow_v2
from millrace.graph.defaults import device as _device
from millrace.graph.graph import Graph
from millrace.testing.graph_comparison import assert_equal_graph_def
from millrace.testing.local_cluster import create_local_cluster
from millrace.testing.test_case import CapturedWrites, ErrorLoggingSession, TestCase

TensorFlowTestCase = TestCase


def _unchanged(decorated: Any = None, **_: Any) -> Any:
    """A decorator that chooses between execution modes: there is one here, the graph."""
    return decorated if decorated is not None else lambda each: each


run_deprecated_v1 = run_v1_only = disable_xla = enable_control_flow_v2_for_test = _unchanged
run_all_in_graph_and_eager_modes = run_all_without_tensor_float_32 = _unchanged
no_xla_auto_jit = _unchanged


def run_in_graph_and_eager_modes(func: Any = None, **_: Any) -> Any:
    """Runs a test method in a new graph with a session: the eager half does not exist here."""

    def decorated(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def run(self: Any, *args: Any, **keywords: Any) -> Any:
            with Graph().as_default(), self.test_session():
                return method(self, *args, **keywords)

        return run

    return decorated(func) if func is not None else decorated


def run_v2_only(func: Any = None, **_: Any) -> Any:
    """Skips a test that TensorFlow 1 would not run either."""

    def decorated(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def run(self: Any, *args: Any, **keywords: Any) -> None:
            self.skipTest("Test is only compatible with v2")

        return run

    return decorated(func) if func is not None else decorated


@contextlib.contextmanager
def use_gpu() -> Iterator[None]:
    """Where a GPU would be used if there were one."""
    yield


@contextlib.contextmanager
def device(use_gpu: bool) -> Iterator[None]:
    """On the CPU if the GPU is not to be used."""
    with contextlib.nullcontext() if use_gpu else _device("/device:CPU:0"):
        yield


def IsMklEnabled() -> bool:
    """False: XLA does the arithmetic."""
    return False


def GpuSupportsHalfMatMulAndConv() -> bool:
    """False: it asks for CUDA."""
    return False


def gpu_device_name() -> str:
    """Empty without a GPU."""
    return ""
