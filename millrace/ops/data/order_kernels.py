"""Op types of datasets that choose, repeat, keep, shuffle or batch the elements of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.resource_handle import ResourceHandle
from millrace.core.tensor_shape import TensorShape, scalar
from millrace.data.pipeline import batching, cache, interleaving, mapping, order, shuffle, workers
from millrace.data.pipeline.dataset import Dataset
from millrace.data.pipeline.sources import Elements, Seeds
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, scalars
from millrace.ops.data.define import boxed, dataset_of, dataset_op, number, texts
from millrace.ops.data.source_kernels import seeds_of
from millrace.platform import logging

__all__: list[str] = []


@dataset_op("TakeDataset(input_dataset: variant, count: int64) where OUTPUTS; METADATA")
def TakeDataset(input_dataset: Any, count: Any) -> Dataset:
    """The first elements."""
    return order.Take(input_dataset, number(count, "count"))


@dataset_op("SkipDataset(input_dataset: variant, count: int64) where OUTPUTS; METADATA")
def SkipDataset(input_dataset: Any, count: Any) -> Dataset:
    """All but the first elements."""
    return order.Skip(input_dataset, number(count, "count"))


@dataset_op(
    "ShardDataset(input_dataset: variant, num_shards: int64, index: int64) where "
    "require_non_empty: bool = false; OUTPUTS; METADATA"
)
def ShardDataset(input_dataset: Any, num_shards: Any, index: Any) -> Dataset:
    """Every so-many-th element."""
    return order.Shard(input_dataset, number(num_shards, "num_shards"), number(index, "index"))


@dataset_op("RepeatDataset(input_dataset: variant, count: int64) where OUTPUTS; METADATA")
def RepeatDataset(input_dataset: Any, count: Any) -> Dataset:
    """All elements several times."""
    return order.Repeat(input_dataset, number(count, "count"))


@dataset_op(
    "ConcatenateDataset(input_dataset: variant, another_dataset: variant) where OUTPUTS; METADATA"
)
def ConcatenateDataset(
    input_dataset: Any, another_dataset: Any, *, output_types: Any, output_shapes: Any
) -> Dataset:
    """One after the other."""
    if input_dataset.types != another_dataset.types:
        raise ValueError(
            "input dataset and another dataset have different output_types "
            f"{[t.name for t in input_dataset.types]} and "
            f"{[t.name for t in another_dataset.types]}"
        )
    return order.Concatenate([input_dataset, another_dataset], output_types, output_shapes)


@dataset_op("ZipDataset(input_datasets: N*variant) where OUTPUTS; N: int >= 1; METADATA")
def ZipDataset(input_datasets: Any, *, output_types: Any, output_shapes: Any) -> Dataset:
    """Side by side."""
    return order.Zip(input_datasets, output_types, output_shapes)


# -- Shuffling -----------------------------------------------------------------------------


@dataset_op(
    "ShuffleDataset(input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64) where "
    "reshuffle_each_iteration: bool = true; OUTPUTS; METADATA"
)
def ShuffleDataset(
    input_dataset: Any, buffer_size: Any, seed: Any, seed2: Any, *, reshuffle_each_iteration: bool
) -> Dataset:
    """In random order."""
    seeds = Seeds(int(seed), int(seed2), reshuffle_each_iteration)
    return shuffle.Shuffle(input_dataset, _buffer(buffer_size, input_dataset), seeds)


@dataset_op(
    "ShuffleDatasetV2(input_dataset: variant, buffer_size: int64, seed_generator: resource) where "
    "OUTPUTS; METADATA",
    stateful=True,
)
def ShuffleDatasetV2(
    input_dataset: Any, buffer_size: Any, seed_generator: Any, *, ctx: Any
) -> Dataset:
    """In random order, by seeds of somebody else."""
    seeds = seeds_of(seed_generator, ctx, 0, 0, True)
    return shuffle.Shuffle(input_dataset, _buffer(buffer_size, input_dataset), seeds)


@dataset_op(
    "ShuffleDatasetV3(input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, "
    "seed_generator: resource) where reshuffle_each_iteration: bool = true; OUTPUTS; METADATA",
    stateful=True,
)
def ShuffleDatasetV3(
    input_dataset: Any,
    buffer_size: Any,
    seed: Any,
    seed2: Any,
    seed_generator: Any,
    *,
    reshuffle_each_iteration: bool,
    ctx: Any,
) -> Dataset:
    """In random order."""
    seeds = seeds_of(seed_generator, ctx, seed, seed2, reshuffle_each_iteration)
    return shuffle.Shuffle(input_dataset, _buffer(buffer_size, input_dataset), seeds)


@dataset_op(
    "ShuffleAndRepeatDataset(input_dataset: variant, buffer_size: int64, seed: int64, seed2: "
    "int64, count: int64) where OUTPUTS; reshuffle_each_iteration: bool = true; METADATA"
)
def ShuffleAndRepeatDataset(
    input_dataset: Any,
    buffer_size: Any,
    seed: Any,
    seed2: Any,
    count: Any,
    *,
    reshuffle_each_iteration: bool,
) -> Dataset:
    """In random order, several times, without a gap between them."""
    seeds = Seeds(int(seed), int(seed2), reshuffle_each_iteration)
    return shuffle.Shuffle(
        input_dataset, _buffer(buffer_size, input_dataset), seeds, number(count, "count")
    )


@dataset_op(
    "ShuffleAndRepeatDatasetV2(input_dataset: variant, buffer_size: int64, seed: int64, seed2: "
    "int64, count: int64, seed_generator: resource) where reshuffle_each_iteration: bool = true; "
    "OUTPUTS; METADATA",
    stateful=True,
)
def ShuffleAndRepeatDatasetV2(
    input_dataset: Any,
    buffer_size: Any,
    seed: Any,
    seed2: Any,
    count: Any,
    seed_generator: Any,
    *,
    reshuffle_each_iteration: bool,
    ctx: Any,
) -> Dataset:
    """In random order, several times, without a gap between them."""
    seeds = seeds_of(seed_generator, ctx, seed, seed2, reshuffle_each_iteration)
    return shuffle.Shuffle(
        input_dataset, _buffer(buffer_size, input_dataset), seeds, number(count, "count")
    )


def _buffer(size: Any, source: Dataset) -> int:
    wanted = number(size, "buffer_size")
    if wanted == -2:  # "unknown": as large as the dataset
        there = source.cardinality()
        return there if there > 0 else 2**62
    return wanted


# -- Keeping -------------------------------------------------------------------------------


@dataset_op("CacheDataset(input_dataset: variant, filename: string) where OUTPUTS; METADATA")
def CacheDataset(input_dataset: Any, filename: Any) -> Dataset:
    """Made once, kept in memory or a file."""
    (name,) = texts(filename)
    return cache.FileCache(input_dataset, name) if name else cache.MemoryCache(input_dataset)


@dataset_op(
    "CacheDatasetV2(input_dataset: variant, filename: string, cache: resource) where "
    "OUTPUTS; METADATA",
    stateful=True,
)
def CacheDatasetV2(input_dataset: Any, filename: Any, memory: Any) -> Dataset:
    """Made once, kept in memory or a file."""
    (name,) = texts(filename)
    return cache.FileCache(input_dataset, name) if name else cache.MemoryCache(input_dataset)


@op(
    "DummyMemoryCache() -> handle: resource",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def DummyMemoryCache() -> Any:
    """A handle behind which nothing is."""
    return boxed(ResourceHandle("", "dummy_memory_cache"))


@op(
    "DummySeedGenerator() -> handle: resource",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def DummySeedGenerator() -> Any:
    """A handle behind which nothing is."""
    return boxed(ResourceHandle("", "dummy_seed_generator"))


@dataset_op(
    "PrefetchDataset(input_dataset: variant, buffer_size: int64) where OUTPUTS; slack_period: "
    "int = 0; legacy_autotune: bool = true; buffer_size_min: int = 0; METADATA"
)
def PrefetchDataset(input_dataset: Any, buffer_size: Any) -> Dataset:
    """Made ahead."""
    return workers.Prefetch(input_dataset, number(buffer_size, "buffer_size"))


# -- Batches -------------------------------------------------------------------------------


@dataset_op("BatchDataset(input_dataset: variant, batch_size: int64) where OUTPUTS; METADATA")
def BatchDataset(
    input_dataset: Any, batch_size: Any, *, output_types: Any, output_shapes: Any
) -> Dataset:
    """Several elements as one."""
    return batching.Batch(
        input_dataset, number(batch_size, "batch_size"), False, output_types, output_shapes
    )


@dataset_op(
    "BatchDatasetV2(input_dataset: variant, batch_size: int64, drop_remainder: bool) where "
    "parallel_copy: bool = false; OUTPUTS; METADATA"
)
def BatchDatasetV2(
    input_dataset: Any,
    batch_size: Any,
    drop_remainder: Any,
    *,
    output_types: Any,
    output_shapes: Any,
) -> Dataset:
    """Several elements as one."""
    return batching.Batch(
        input_dataset,
        number(batch_size, "batch_size"),
        bool(drop_remainder),
        output_types,
        output_shapes,
    )


@dataset_op(
    "ParallelBatchDataset(input_dataset: variant, batch_size: int64, num_parallel_calls: int64, "
    "drop_remainder: bool) where parallel_copy: bool = false; OUTPUTS; deterministic: string = "
    '"default"; METADATA'
)
def ParallelBatchDataset(
    input_dataset: Any,
    batch_size: Any,
    num_parallel_calls: Any,
    drop_remainder: Any,
    *,
    output_types: Any,
    output_shapes: Any,
) -> Dataset:
    """Several elements as one, made ahead."""
    made = batching.Batch(
        input_dataset,
        number(batch_size, "batch_size"),
        bool(drop_remainder),
        output_types,
        output_shapes,
    )
    return workers.Prefetch(made, max(number(num_parallel_calls, "num_parallel_calls"), -1))


def _padded(
    input_dataset: Any,
    batch_size: Any,
    padded_shapes: Any,
    padding_values: Any,
    drop_remainder: bool,
    types: Any,
    shapes: Any,
) -> Dataset:
    if len(padded_shapes) != len(input_dataset.types):
        raise ValueError(
            f"Number of padded shapes ({len(padded_shapes)}) must match the number of components "
            f"in the input dataset's elements ({len(input_dataset.types)})"
        )
    for i, (value, dtype) in enumerate(zip(padding_values, input_dataset.types, strict=True)):
        if np.ndim(value):
            raise ValueError("All padding values must be scalars")
        if dtype.name == "variant":
            raise NotImplementedError(f"Component {i} is a variant: it cannot be padded")
    return batching.padded_batch(
        input_dataset,
        number(batch_size, "batch_size"),
        drop_remainder,
        [[int(size) for size in shape] for shape in padded_shapes],
        [value[()] for value in padding_values],
        types,
        shapes,
    )


@dataset_op(
    "PaddedBatchDataset(input_dataset: variant, batch_size: int64, padded_shapes: N*int64, "
    "padding_values: [Toutput_types]) where Toutput_types: list(type) >= 1; output_shapes: "
    "list(shape) >= 1; N: int >= 1; METADATA"
)
def PaddedBatchDataset(
    input_dataset: Any,
    batch_size: Any,
    padded_shapes: Any,
    padding_values: Any,
    *,
    Toutput_types: Any,
    output_shapes: Any,
) -> Dataset:
    """Several elements as one, filled up to one shape."""
    return _padded(
        input_dataset,
        batch_size,
        padded_shapes,
        padding_values,
        False,
        Toutput_types,
        output_shapes,
    )


@dataset_op(
    "PaddedBatchDatasetV2(input_dataset: variant, batch_size: int64, padded_shapes: N*int64, "
    "padding_values: [Toutput_types], drop_remainder: bool) where parallel_copy: bool = false; "
    "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1; METADATA"
)
def PaddedBatchDatasetV2(
    input_dataset: Any,
    batch_size: Any,
    padded_shapes: Any,
    padding_values: Any,
    drop_remainder: Any,
    *,
    Toutput_types: Any,
    output_shapes: Any,
) -> Dataset:
    """Several elements as one, filled up to one shape."""
    return _padded(
        input_dataset,
        batch_size,
        padded_shapes,
        padding_values,
        bool(drop_remainder),
        Toutput_types,
        output_shapes,
    )


@dataset_op(
    "DenseToSparseBatchDataset(input_dataset: variant, batch_size: int64, row_shape: int64) where "
    "OUTPUTS",
    also=("ExperimentalDenseToSparseBatchDataset",),
)
def DenseToSparseBatchDataset(
    input_dataset: Any, batch_size: Any, row_shape: Any, *, output_types: Any, output_shapes: Any
) -> Dataset:
    """Several elements as one sparse tensor."""
    return batching.SparseBatch(
        input_dataset,
        number(batch_size, "batch_size"),
        [int(size) for size in row_shape],
        output_types,
        output_shapes,
    )


@dataset_op(
    "UnbatchDataset(input_dataset: variant) where OUTPUTS; METADATA",
    also=("ExperimentalUnbatchDataset",),
)
def UnbatchDataset(input_dataset: Any, *, output_types: Any, output_shapes: Any) -> Dataset:
    """The rows of elements."""
    return batching.Unbatch(input_dataset, output_types, output_shapes)


@dataset_op(
    "WindowDataset(input_dataset: variant, size: int64, shift: int64, stride: int64, "
    "drop_remainder: bool) where OUTPUTS; METADATA"
)
def WindowDataset(
    input_dataset: Any,
    size: Any,
    shift: Any,
    stride: Any,
    drop_remainder: Any,
    *,
    output_types: Any,
    output_shapes: Any,
) -> Dataset:
    """Datasets of elements."""
    return batching.Window(
        input_dataset,
        number(size, "size"),
        number(shift, "shift"),
        number(stride, "stride"),
        bool(drop_remainder),
        output_types,
        output_shapes,
    )


# -- What leaves elements as they are -------------------------------------------------------


@dataset_op(
    "IgnoreErrorsDataset(input_dataset: variant) where OUTPUTS; log_warning: bool = false",
)
def IgnoreErrorsDataset(input_dataset: Any, *, log_warning: bool) -> Dataset:
    """What could be made."""
    return mapping.IgnoreErrors(input_dataset, logging.warning if log_warning else None)


@dataset_op("ExperimentalIgnoreErrorsDataset(input_dataset: variant) where OUTPUTS; "
            "log_warning: bool = false")  # fmt: skip
def ExperimentalIgnoreErrorsDataset(input_dataset: Any, *, log_warning: bool) -> Dataset:
    """What could be made."""
    return mapping.IgnoreErrors(input_dataset, logging.warning if log_warning else None)


def _unchanged(text: str, **options: Any) -> None:
    """An op type of TensorFlow's optimizer or of options: Millrace decides these things itself."""

    def kernel(input_dataset: Any, *settings: Any) -> Dataset:
        return input_dataset

    dataset_op(text, **options)(kernel)


for _text in (
    "OptionsDataset(input_dataset: variant) where serialized_options: string; OUTPUTS; METADATA",
    "ModelDataset(input_dataset: variant) where algorithm: int = 0; cpu_budget: int = 0; "
    "ram_budget: int = 0; OUTPUTS",
    "OptimizeDataset(input_dataset: variant, optimizations: string) where OUTPUTS; "
    "optimization_configs: list(string) = []",
    "OptimizeDatasetV2(input_dataset: variant, optimizations_enabled: string, "
    "optimizations_disabled: string, optimizations_default: string) where OUTPUTS; "
    "optimization_configs: list(string) = []",
    "FinalizeDataset(input_dataset: variant) where has_captured_ref: bool = false; OUTPUTS",
    "PrivateThreadPoolDataset(input_dataset: variant, num_threads: int64) where OUTPUTS",
    "ExperimentalPrivateThreadPoolDataset(input_dataset: variant, num_threads: int64) where "
    "OUTPUTS",
    "MaxIntraOpParallelismDataset(input_dataset: variant, max_intra_op_parallelism: int64) where "
    "OUTPUTS",
    "ExperimentalMaxIntraOpParallelismDataset(input_dataset: variant, max_intra_op_parallelism: "
    "int64) where OUTPUTS",
    "RewriteDataset(input_dataset: variant, rewrite_name: string) where OUTPUTS",
    "NonSerializableDataset(input_dataset: variant) where OUTPUTS",
    "AssertNextDataset(input_dataset: variant, transformations: string) where OUTPUTS",
    "BytesProducedStatsDataset(input_dataset: variant, tag: string) where OUTPUTS",
    "LatencyStatsDataset(input_dataset: variant, tag: string) where OUTPUTS",
):
    _unchanged(_text)


@dataset_op(
    "DirectedInterleaveDataset(selector_input_dataset: variant, data_input_datasets: N*variant) "
    "where OUTPUTS; N: int >= 1; stop_on_empty_dataset: bool = false"
)
def DirectedInterleaveDataset(
    selector_input_dataset: Any,
    data_input_datasets: Any,
    *,
    output_types: Any,
    output_shapes: Any,
    stop_on_empty_dataset: bool,
) -> Dataset:
    """Of several, as a dataset of numbers says."""
    return _directed(
        selector_input_dataset,
        data_input_datasets,
        output_types,
        output_shapes,
        stop_on_empty_dataset,
    )


@dataset_op(
    "ExperimentalDirectedInterleaveDataset(selector_input_dataset: variant, data_input_datasets: "
    "N*variant) where OUTPUTS; N: int >= 1"
)
def ExperimentalDirectedInterleaveDataset(
    selector_input_dataset: Any, data_input_datasets: Any, *, output_types: Any, output_shapes: Any
) -> Dataset:
    """Of several, as a dataset of numbers says."""
    return _directed(
        selector_input_dataset, data_input_datasets, output_types, output_shapes, False
    )


def _directed(selector: Any, parts: Any, types: Any, shapes: Any, stops: bool) -> Dataset:
    chosen = dataset_of(selector)
    if chosen.types != [dtypes.int64]:
        raise ValueError("The selector input must be a dataset of scalar int64 elements.")
    return interleaving.Directed(chosen, [dataset_of(p) for p in parts], types, shapes, stops)


@dataset_op(
    "ListDataset(tensors: [Tinput_types]) where Tinput_types: list(type) >= 1; OUTPUTS; METADATA",
    stateful=True,
)
def ListDataset(tensors: Any, *, output_types: Any, output_shapes: Any) -> Dataset:
    """Elements as they are listed."""
    width = len(output_types)
    elements = [tuple(tensors[i : i + width]) for i in range(0, len(tensors), width)]
    return Elements(elements, output_types, output_shapes)


# -- Questions -----------------------------------------------------------------------------


def _vector(c: ShapeContext) -> TensorShape:
    return scalar()


@op(
    "DatasetCardinality(input_dataset: variant) -> cardinality: int64 where cardinality_options: "
    'string = ""',
    shape=_vector,
    gradient=NO_GRADIENT,
    host=True,
)
def DatasetCardinality(input_dataset: Any) -> Any:
    """How many elements there are."""
    return np.array(dataset_of(input_dataset).cardinality(), np.int64)


@op(
    "ExperimentalDatasetCardinality(input_dataset: variant) -> cardinality: int64",
    shape=_vector,
    gradient=NO_GRADIENT,
    host=True,
)
def ExperimentalDatasetCardinality(input_dataset: Any) -> Any:
    """How many elements there are."""
    return np.array(dataset_of(input_dataset).cardinality(), np.int64)


for _name in ("WrapDatasetVariant", "UnwrapDatasetVariant"):

    @op(
        f"{_name}(input_handle: variant) -> output_handle: variant",
        shape=scalars,
        gradient=NO_GRADIENT,
        host=True,
    )
    def _wrap(input_handle: Any) -> Any:
        return input_handle
