"""Op types of datasets that call functions: mapped, filtered, interleaved, grouped, reduced."""

from __future__ import annotations

from typing import Any

from millrace.data.pipeline import grouping, interleaving, mapping
from millrace.data.pipeline.dataset import Dataset
from millrace.data.pipeline.element import arrays, numpy_type
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.ops.data.define import OUTPUTS, dataset_of, dataset_op, number
from millrace.ops.data.iterator_resource import pipeline_context

__all__: list[str] = []

_F = "f: func; Targuments: list(type) >= 0; OUTPUTS"
_PREDICATE = "predicate: func; Targuments: list(type) >= 0; OUTPUTS"
_CAPTURED = "input_dataset: variant, other_arguments: [Targuments]"


@dataset_op(
    f"MapDataset({_CAPTURED}) where {_F}; use_inter_op_parallelism: bool = true; "
    "preserve_cardinality: bool = false; force_synchronous: bool = false; METADATA"
)
def MapDataset(
    input_dataset: Any,
    other_arguments: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    preserve_cardinality: bool,
    bind: Any,
) -> Dataset:
    """A function of each element."""
    call = bind(f, other_arguments, "other_arguments")
    return mapping.Map(
        input_dataset, call, output_types, output_shapes, keeps_count=preserve_cardinality
    )


@dataset_op(
    f"ParallelMapDataset({_CAPTURED}, num_parallel_calls: int32) where {_F}; "
    "use_inter_op_parallelism: bool = true; sloppy: bool = false; preserve_cardinality: bool = "
    "false; METADATA"
)
def ParallelMapDataset(
    input_dataset: Any,
    other_arguments: Any,
    num_parallel_calls: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    sloppy: bool,
    preserve_cardinality: bool,
    bind: Any,
) -> Dataset:
    """A function of each element, of several at a time."""
    calls = _parallel(num_parallel_calls)
    call = bind(f, other_arguments, "other_arguments")
    return mapping.Map(
        input_dataset,
        call,
        output_types,
        output_shapes,
        calls,
        ordered=not sloppy,
        keeps_count=preserve_cardinality,
    )


@dataset_op(
    f"ParallelMapDatasetV2({_CAPTURED}, num_parallel_calls: int64) where {_F}; "
    'use_inter_op_parallelism: bool = true; deterministic: string = "default"; '
    "preserve_cardinality: bool = false; use_unbounded_threadpool: bool = false; METADATA"
)
def ParallelMapDatasetV2(
    input_dataset: Any,
    other_arguments: Any,
    num_parallel_calls: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    deterministic: bytes,
    preserve_cardinality: bool,
    bind: Any,
) -> Dataset:
    """A function of each element, of several at a time."""
    calls = _parallel(num_parallel_calls)
    call = bind(f, other_arguments, "other_arguments")
    return mapping.Map(
        input_dataset,
        call,
        output_types,
        output_shapes,
        calls,
        ordered=deterministic != b"false",
        keeps_count=preserve_cardinality,
    )


def _parallel(value: Any) -> int:
    calls = number(value, "num_parallel_calls")
    if calls < 1 and calls != -1:
        raise ValueError("num_parallel_calls must be greater than zero.")
    return calls


_MAP_AND_BATCH = (
    f"({_CAPTURED}, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool) where "
    f"{_F}; preserve_cardinality: bool = false"
)


@dataset_op(
    f"MapAndBatchDataset{_MAP_AND_BATCH}; METADATA", also=("ExperimentalMapAndBatchDataset",)
)
def MapAndBatchDataset(
    input_dataset: Any,
    other_arguments: Any,
    batch_size: Any,
    num_parallel_calls: Any,
    drop_remainder: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """A function of each element, in batches."""
    call = bind(f, other_arguments, "other_arguments")
    return mapping.MapAndBatch(
        input_dataset,
        call,
        number(batch_size, "batch_size"),
        number(num_parallel_calls, "num_parallel_calls"),
        bool(drop_remainder),
        output_types,
        output_shapes,
        [numpy_type(dtype) for dtype in output_types],
    )


@dataset_op(f"FilterDataset({_CAPTURED}) where {_PREDICATE}; METADATA")
def FilterDataset(
    input_dataset: Any,
    other_arguments: Any,
    *,
    predicate: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """The elements for which a function holds."""
    call = bind(predicate, other_arguments, "other_arguments")
    return mapping.Filter(input_dataset, call, output_types, output_shapes)


@dataset_op(
    f"ParallelFilterDataset({_CAPTURED}, num_parallel_calls: int64) where {_PREDICATE}; "
    'deterministic: string = "default"; METADATA'
)
def ParallelFilterDataset(
    input_dataset: Any,
    other_arguments: Any,
    num_parallel_calls: Any,
    *,
    predicate: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """The elements for which a function holds."""
    call = bind(predicate, other_arguments, "other_arguments")
    return mapping.Filter(input_dataset, call, output_types, output_shapes)


@dataset_op(
    f"TakeWhileDataset({_CAPTURED}) where {_PREDICATE}; METADATA",
    also=("ExperimentalTakeWhileDataset",),
)
def TakeWhileDataset(
    input_dataset: Any,
    other_arguments: Any,
    *,
    predicate: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """The elements before the first for which a function does not hold."""
    call = bind(predicate, other_arguments, "other_arguments")
    return mapping.Filter(input_dataset, call, output_types, output_shapes, ends=True)


@dataset_op(f"FlatMapDataset({_CAPTURED}) where {_F}; METADATA")
def FlatMapDataset(
    input_dataset: Any,
    other_arguments: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """The elements of datasets, one after the other."""
    call = bind(f, other_arguments, "other_arguments")
    return interleaving.Interleave(input_dataset, call, output_types, output_shapes)


@dataset_op(
    f"InterleaveDataset({_CAPTURED}, cycle_length: int64, block_length: int64) where {_F}; METADATA"
)
def InterleaveDataset(
    input_dataset: Any,
    other_arguments: Any,
    cycle_length: Any,
    block_length: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """The elements of datasets, by turns."""
    return _interleaved(
        bind(f, other_arguments, "other_arguments"),
        input_dataset,
        cycle_length,
        block_length,
        output_types,
        output_shapes,
    )


def _interleaved(
    call: Any,
    source: Dataset,
    cycle_length: Any,
    block_length: Any,
    types: Any,
    shapes: Any,
    ahead: int = 0,
    ordered: bool = True,
) -> Dataset:
    return interleaving.Interleave(
        source,
        call,
        types,
        shapes,
        number(cycle_length, "cycle_length"),
        number(block_length, "block_length"),
        ahead,
        ordered,
    )


_TURNS = f"{_CAPTURED}, cycle_length: int64, block_length: int64"
_BUFFERS = "buffer_output_elements: int64, prefetch_input_elements: int64"


@dataset_op(
    f"ParallelInterleaveDataset({_TURNS}, sloppy: bool, {_BUFFERS}) where {_F}; METADATA",
    also=("ExperimentalParallelInterleaveDataset",),
)
def ParallelInterleaveDataset(
    input_dataset: Any,
    other_arguments: Any,
    cycle_length: Any,
    block_length: Any,
    sloppy: Any,
    buffer_output_elements: Any,
    prefetch_input_elements: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """The elements of datasets, by turns, made ahead."""
    return _interleaved(
        bind(f, other_arguments, "other_arguments"),
        input_dataset,
        cycle_length,
        block_length,
        output_types,
        output_shapes,
        _ahead(buffer_output_elements, block_length),
        not bool(sloppy),
    )


def _ahead(buffered: Any, block_length: Any) -> int:
    """How many elements of each open dataset are made ahead."""
    stated = int(buffered)
    return stated if stated > 0 else max(2 * int(block_length), 16)


@dataset_op(
    f"ParallelInterleaveDatasetV2({_TURNS}, num_parallel_calls: int64) where {_F}; sloppy: bool = "
    "false; METADATA"
)
def ParallelInterleaveDatasetV2(
    input_dataset: Any,
    other_arguments: Any,
    cycle_length: Any,
    block_length: Any,
    num_parallel_calls: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    sloppy: bool,
    bind: Any,
) -> Dataset:
    """The elements of datasets, by turns, made ahead."""
    return _interleaved(
        bind(f, other_arguments, "other_arguments"),
        input_dataset,
        cycle_length,
        block_length,
        output_types,
        output_shapes,
        _ahead(0, block_length),
        not sloppy,
    )


@dataset_op(
    f"ParallelInterleaveDatasetV3({_TURNS}, num_parallel_calls: int64) where {_F}; deterministic: "
    'string = "default"; METADATA'
)
def ParallelInterleaveDatasetV3(
    input_dataset: Any,
    other_arguments: Any,
    cycle_length: Any,
    block_length: Any,
    num_parallel_calls: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    deterministic: bytes,
    bind: Any,
) -> Dataset:
    """The elements of datasets, by turns, made ahead."""
    return _interleaved(
        bind(f, other_arguments, "other_arguments"),
        input_dataset,
        cycle_length,
        block_length,
        output_types,
        output_shapes,
        _ahead(0, block_length),
        deterministic != b"false",
    )


@dataset_op(
    f"ParallelInterleaveDatasetV4({_TURNS}, {_BUFFERS}, num_parallel_calls: int64) where {_F}; "
    'deterministic: string = "default"; METADATA'
)
def ParallelInterleaveDatasetV4(
    input_dataset: Any,
    other_arguments: Any,
    cycle_length: Any,
    block_length: Any,
    buffer_output_elements: Any,
    prefetch_input_elements: Any,
    num_parallel_calls: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    deterministic: bytes,
    bind: Any,
) -> Dataset:
    """The elements of datasets, by turns, made ahead."""
    return _interleaved(
        bind(f, other_arguments, "other_arguments"),
        input_dataset,
        cycle_length,
        block_length,
        output_types,
        output_shapes,
        _ahead(buffer_output_elements, block_length),
        deterministic != b"false",
    )


@dataset_op(
    f"LegacyParallelInterleaveDatasetV2({_TURNS}, {_BUFFERS}) where {_F}; deterministic: string = "
    '"default"; METADATA'
)
def LegacyParallelInterleaveDatasetV2(
    input_dataset: Any,
    other_arguments: Any,
    cycle_length: Any,
    block_length: Any,
    buffer_output_elements: Any,
    prefetch_input_elements: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    deterministic: bytes,
    bind: Any,
) -> Dataset:
    """The elements of datasets, by turns, made ahead."""
    return _interleaved(
        bind(f, other_arguments, "other_arguments"),
        input_dataset,
        cycle_length,
        block_length,
        output_types,
        output_shapes,
        _ahead(buffer_output_elements, block_length),
        deterministic != b"false",
    )


_SCAN = (
    "(input_dataset: variant, initial_state: [Tstate], other_arguments: [Targuments]) where f: "
    "func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; OUTPUTS; preserve_cardinality: "
    "bool = false"
)


@dataset_op(f"ScanDataset{_SCAN}; use_default_device: bool = true; METADATA")
def ScanDataset(
    input_dataset: Any,
    initial_state: Any,
    other_arguments: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """A function of a state and each element."""
    call = bind(f, other_arguments, "other_arguments")
    return mapping.Scan(input_dataset, call, initial_state, output_types, output_shapes)


@dataset_op(f"ExperimentalScanDataset{_SCAN}")
def ExperimentalScanDataset(
    input_dataset: Any,
    initial_state: Any,
    other_arguments: Any,
    *,
    f: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """A function of a state and each element."""
    call = bind(f, other_arguments, "other_arguments")
    return mapping.Scan(input_dataset, call, initial_state, output_types, output_shapes)


def _functions(*names: str) -> tuple[str, str]:
    """Captured inputs and attributes of several functions."""
    inputs = ", ".join(f"{n}_other_arguments: [T{n}_other_arguments]" for n in names)
    attrs = "; ".join(f"{n}: func" for n in names)
    types = "; ".join(f"T{n}_other_arguments: list(type) >= 0" for n in names)
    return inputs, f"{attrs}; {types}"


_inputs, _attrs = _functions("key_func", "reduce_func", "window_size_func")


@dataset_op(
    f"GroupByWindowDataset(input_dataset: variant, {_inputs}) where {_attrs}; OUTPUTS; METADATA",
    also=("ExperimentalGroupByWindowDataset",),
)
def GroupByWindowDataset(
    input_dataset: Any,
    key_func_other_arguments: Any,
    reduce_func_other_arguments: Any,
    window_size_func_other_arguments: Any,
    *,
    key_func: Any,
    reduce_func: Any,
    window_size_func: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """Elements of one key, reduced together."""
    return grouping.GroupByWindow(
        input_dataset,
        bind(key_func, key_func_other_arguments, "key_func_other_arguments"),
        bind(reduce_func, reduce_func_other_arguments, "reduce_func_other_arguments"),
        bind(
            window_size_func, window_size_func_other_arguments, "window_size_func_other_arguments"
        ),
        output_types,
        output_shapes,
    )


_inputs, _attrs = _functions("key_func", "init_func", "reduce_func", "finalize_func")


@dataset_op(
    f"GroupByReducerDataset(input_dataset: variant, {_inputs}) where {_attrs}; OUTPUTS",
    stateful=True,
    also=("ExperimentalGroupByReducerDataset",),
)
def GroupByReducerDataset(
    input_dataset: Any,
    key_func_other_arguments: Any,
    init_func_other_arguments: Any,
    reduce_func_other_arguments: Any,
    finalize_func_other_arguments: Any,
    *,
    key_func: Any,
    init_func: Any,
    reduce_func: Any,
    finalize_func: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """One element for each key."""
    return grouping.GroupByReducer(
        input_dataset,
        bind(key_func, key_func_other_arguments, "key_func_other_arguments"),
        bind(init_func, init_func_other_arguments, "init_func_other_arguments"),
        bind(reduce_func, reduce_func_other_arguments, "reduce_func_other_arguments"),
        bind(finalize_func, finalize_func_other_arguments, "finalize_func_other_arguments"),
        output_types,
        output_shapes,
    )


def _stated_shapes(c: ShapeContext) -> Any:
    return c.attr("output_shapes")


@op(
    "ReduceDataset(input_dataset: variant, initial_state: [Tstate], other_arguments: [Targuments]) "
    "-> components: [output_types] where f: func; Tstate: list(type) >= 1; Targuments: list(type) "
    f'>= 0; {OUTPUTS}; use_inter_op_parallelism: bool = true; metadata: string = ""',
    shape=_stated_shapes,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def ReduceDataset(
    input_dataset: Any,
    initial_state: Any,
    other_arguments: Any,
    *,
    f: Any,
    output_types: Any,
    bind: Any,
    ctx: Any,
    node: Any,
) -> Any:
    """What a function makes of all elements."""
    source = dataset_of(input_dataset)
    call = bind(f, other_arguments, "other_arguments")
    state = list(initial_state)
    with pipeline_context(ctx, node.name) as context:
        iterator = source.iterator(context)
        while elements := iterator.take(64):
            for element in elements:
                state = call([*state, *arrays(element, source.kinds)])
        iterator.close()
    return state


@op(
    "DatasetToSingleElement(dataset: variant) -> components: [output_types] where "
    f'{OUTPUTS}; metadata: string = ""',
    shape=_stated_shapes,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def DatasetToSingleElement(dataset: Any, *, ctx: Any, node: Any) -> Any:
    """The only element of a dataset."""
    source = dataset_of(dataset)
    with pipeline_context(ctx, node.name) as context:
        iterator = source.iterator(context)
        found = iterator.take(1)
        if not found:
            raise ValueError("Dataset was empty.")
        if iterator.take(1):
            raise ValueError("Dataset had more than one element.")
        iterator.close()
    return arrays(found[0], source.kinds)
