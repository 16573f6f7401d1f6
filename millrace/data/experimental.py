"""`tf.data.experimental`."""

from millrace.core.tensor_spec import SparseTensorSpec as SparseTensorStructure
from millrace.core.tensor_spec import TensorSpec as TensorStructure
from millrace.core.tensor_spec import TypeSpec as Structure
from millrace.ops.data import experimental
from millrace.ops.data.dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from millrace.ops.data.experimental import *  # noqa: F403
from millrace.ops.data.iterator import Optional, get_next_as_optional
from millrace.ops.data.options import (
    AutoShardPolicy,
    AutotuneOptions,
    DistributeOptions,
    ExternalStatePolicy,
    OptimizationOptions,
    ThreadingOptions,
)
from millrace.ops.data.readers import CsvDataset, RandomDataset, SqlDataset
from millrace.ops.data.structure import DatasetSpec as DatasetStructure
from millrace.ops.data.structure import OptionalSpec as OptionalStructure

Counter = Dataset.counter

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "AutoShardPolicy",
    "AutotuneOptions",
    "Counter",
    "CsvDataset",
    "DatasetStructure",
    "DistributeOptions",
    "ExternalStatePolicy",
    "OptimizationOptions",
    "Optional",
    "OptionalStructure",
    "RandomDataset",
    "SparseTensorStructure",
    "SqlDataset",
    "Structure",
    "TensorStructure",
    "ThreadingOptions",
    "get_next_as_optional",
    *experimental.__all__,
]
