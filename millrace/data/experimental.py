"""`tf.data.experimental`."""

from millrace.core.tensor_spec import SparseTensorSpec as SparseTensorStructure
from millrace.core.tensor_spec import TensorSpec as TensorStructure
from millrace.core.tensor_spec import TypeSpec as Structure
from millrace.ops.data import experimental
from millrace.ops.data.csv_tables import make_csv_dataset
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
from millrace.ops.data.parquet import ParquetDataset
from millrace.ops.data.readers import CsvDataset, RandomDataset, SqlDataset
from millrace.ops.data.record_files import make_batched_features_dataset
from millrace.ops.data.structure import DatasetSpec as DatasetStructure
from millrace.ops.data.structure import OptionalSpec as OptionalStructure
from millrace.training.checkpoint.iterator_state import make_saveable_from_iterator
from millrace.training.hooks.checkpoint_input_pipeline import CheckpointInputPipelineHook

Counter = Dataset.counter

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "AutoShardPolicy",
    "AutotuneOptions",
    "CheckpointInputPipelineHook",
    "Counter",
    "CsvDataset",
    "DatasetStructure",
    "DistributeOptions",
    "ExternalStatePolicy",
    "OptimizationOptions",
    "Optional",
    "OptionalStructure",
    "ParquetDataset",
    "RandomDataset",
    "SparseTensorStructure",
    "SqlDataset",
    "Structure",
    "TensorStructure",
    "ThreadingOptions",
    "get_next_as_optional",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "make_saveable_from_iterator",
    *experimental.__all__,
]
