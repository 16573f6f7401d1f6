"""Transformations whose arguments need some work: padding, turns, states, groups.

Each takes a dataset's variant and spec and returns those of the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, as_shape, scalar
from millrace.core.tensor_spec import SparseTensorSpec, TensorSpec
from millrace.graph.constant_value import constant_value, constant_value_as_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.tensor import Tensor
from millrace.ops.data import function_kernels as functions
from millrace.ops.data import order_kernels, structure
from millrace.ops.data.tracing import TracedFunction, trace

Made = tuple[Tensor, Any]


def int64(value: Any, name: str) -> Tensor:
    """A number as an int64 tensor."""
    return convert_to_tensor(value, dtype=dtypes.int64, name=name)


def outputs(spec: Any) -> dict[str, Any]:
    """The attributes that state the types and shapes of elements."""
    return {
        "output_types": structure.flat_types(spec),
        "output_shapes": structure.flat_shapes(spec),
    }


def deterministic_text(value: bool | None) -> str:
    """The value of an attribute ``deterministic``."""
    return "default" if value is None else "true" if value else "false"


def static_batch(size: Tensor, drop_remainder: Tensor) -> int | None:
    """The first dimension of batches where it is known."""
    drops, known = constant_value(drop_remainder), constant_value(size)
    return int(known) if drops is not None and bool(drops) and known is not None else None


def predicate_of(call: Callable[..., Any], spec: Any, name: str) -> TracedFunction:
    """A traced function that returns one bool.

    Raises:
      ValueError: It returns something else.
    """
    traced = trace(call, spec, name)
    found = traced.spec
    if (
        not isinstance(found, TensorSpec)
        or found.dtype != dtypes.bool
        or not found.shape.is_compatible_with(scalar())
    ):
        raise ValueError(
            "Invalid `predicate`. `predicate` must return a `tf.bool` scalar tensor, but its "
            f"return type is {found}."
        )
    return traced


def dataset_result(traced: TracedFunction, name: str) -> Any:
    """The spec of the elements of the dataset that a function returns.

    Raises:
      TypeError: It returns something else.
    """
    if not isinstance(traced.spec, structure.DatasetSpec):
        raise TypeError(
            f"The `{name}` argument must return a `Dataset` object. Got "
            f"{structure.flatten(traced.spec)[0]!r}."
        )
    return traced.spec.element_spec


# -- Padding -------------------------------------------------------------------------------


def padded_batch(
    variant: Tensor,
    spec: Any,
    batch_size: Any,
    padded_shapes: Any,
    padding_values: Any,
    drop_remainder: Any,
    name: str | None,
) -> Made:
    """See `Dataset.padded_batch`.

    Raises:
      TypeError: A component is sparse, or a padding value has another type.
      ValueError: A shape does not fit, or is missing where the rank is not known.
    """
    leaves = structure.flatten(spec)
    for leaf in leaves:
        if not isinstance(leaf, TensorSpec):
            raise TypeError(
                f"`padded_batch` is only supported for datasets that produce tensor elements but "
                f"the input dataset produces elements of unsupported type {leaf}."
            )
    if padded_shapes is None:
        for i, leaf in enumerate(leaves):
            if leaf.shape.ndims is None:
                raise ValueError(
                    "You must provide `padded_shapes` argument because component "
                    f"{i} has unknown rank."
                )
        given: list[Any] = [leaf.shape for leaf in leaves]
    else:
        given = structure.flatten_up_to(spec, padded_shapes)
    shapes = [_shape_tensor(each, leaf) for each, leaf in zip(given, leaves, strict=True)]
    if padding_values is None:
        fills: list[Any] = [None] * len(leaves)
    elif not structure.is_nested(padding_values):
        fills = [padding_values] * len(leaves)
    else:
        fills = structure.flatten_up_to(spec, padding_values)
    values = [_fill_tensor(each, leaf.dtype) for each, leaf in zip(fills, leaves, strict=True)]
    size = int64(batch_size, "batch_size")
    drop = convert_to_tensor(drop_remainder, dtype=dtypes.bool, name="drop_remainder")
    first = TensorShape([static_batch(size, drop)])
    made = structure.pack(
        spec,
        [
            TensorSpec(first.concatenate(_static_shape(tensor)), leaf.dtype)
            for tensor, leaf in zip(shapes, leaves, strict=True)
        ],
    )
    tensor = order_kernels.PaddedBatchDatasetV2(
        variant,
        size,
        shapes,
        values,
        drop,
        output_shapes=structure.flat_shapes(made),
        name=name,
    )
    return tensor, made


def _shape_tensor(given: Any, leaf: TensorSpec) -> Tensor:
    """A shape to fill up to as a tensor, with -1 for what is not known."""
    if isinstance(given, Tensor):
        if given.shape.ndims not in (None, 1):
            raise ValueError(
                f"Padded shape {given} must be a 1-D tensor of `tf.int64` values, but its shape is "
                f"{given.shape}."
            )
        if given.dtype != dtypes.int64:
            raise TypeError(
                f"Padded shape {given} must be a 1-D tensor of `tf.int64` values, but its element "
                f"type is {given.dtype.name}."
            )
        return given
    if isinstance(given, list | tuple | np.ndarray):
        given = [None if s is None or int(s) == -1 else int(s) for s in given]
    elif isinstance(given, int):
        given = [given]
    stated = as_shape(given)
    if stated.sizes is None:
        raise ValueError("A padded shape must have a known rank.")
    known = leaf.shape.sizes
    if known is not None:
        if len(known) != len(stated.sizes):
            raise ValueError(
                f"The padded shape {stated} is not compatible with the shape {leaf.shape} of the "
                "corresponding input component."
            )
        for have, want in zip(known, stated.sizes, strict=True):
            if have is not None and want is not None and want < have:
                raise ValueError(
                    f"The padded shape {stated} is not compatible with the shape {leaf.shape} of "
                    "the corresponding input component."
                )
    return int64([-1 if size is None else size for size in stated.sizes], "padded_shape")


def _static_shape(tensor: Tensor) -> TensorShape:
    shape = constant_value_as_shape(tensor)
    return as_shape(shape)


def _fill_tensor(value: Any, dtype: DType) -> Tensor:
    if value is None:
        if dtype == dtypes.string:
            value = b""
        elif dtype.name == "variant":
            raise TypeError("Unable to create default padding value for a variant")
        else:
            value = np.zeros((), dtype.as_numpy_dtype)
        return convert_to_tensor(value, dtype=dtype, name="padding_value")
    made = convert_to_tensor(value, name="padding_value")
    if made.dtype.base_dtype != dtype:
        known = constant_value(made)
        if isinstance(value, int | float) and known is not None:
            return convert_to_tensor(value, dtype=dtype, name="padding_value")
        raise TypeError(
            f"Padding value dtype mismatch: expected {dtype.name}, got {made.dtype.name}"
        )
    if made.shape.ndims not in (None, 0):
        raise ValueError(f"`padding_value` must be a scalar, but its shape is {made.shape}.")
    return made


def sparse_batch(variant: Tensor, spec: Any, batch_size: Any, row_shape: Any) -> Made:
    """See `Dataset.sparse_batch`."""
    if not isinstance(spec, TensorSpec):
        raise TypeError(
            "`sparse_batch` requires an input dataset whose elements have a single component, "
            f"but the given dataset has {spec}."
        )
    if isinstance(row_shape, Tensor):
        shape, known = row_shape, constant_value_as_shape(row_shape)
    else:
        known = as_shape(row_shape)
        shape = int64([-1 if s is None else s for s in known.as_list()], "row_shape")
    made = SparseTensorSpec(TensorShape([None]).concatenate(as_shape(known)), spec.dtype)
    tensor = order_kernels.DenseToSparseBatchDataset(
        variant, int64(batch_size, "batch_size"), shape, **outputs(made)
    )
    return tensor, made


# -- Turns -----------------------------------------------------------------------------------


def interleave(
    variant: Tensor,
    spec: Any,
    map_func: Callable[..., Any],
    cycle_length: Any,
    block_length: Any,
    num_parallel_calls: Any,
    deterministic: bool | None,
    name: str | None,
) -> Made:
    """See `Dataset.interleave`."""
    traced = trace(map_func, spec, "Dataset.interleave")
    made = dataset_result(traced, "map_func")
    length = int64(-1 if cycle_length is None else cycle_length, "cycle_length")
    block = int64(1 if block_length is None else block_length, "block_length")
    if num_parallel_calls is None:
        tensor = functions.InterleaveDataset(
            variant, traced.captured, length, block, f=traced.function, name=name, **outputs(made)
        )
    else:
        tensor = functions.ParallelInterleaveDatasetV4(
            variant,
            traced.captured,
            length,
            block,
            int64(-1, "buffer_output_elements"),
            int64(-1, "prefetch_input_elements"),
            int64(num_parallel_calls, "num_parallel_calls"),
            f=traced.function,
            deterministic=deterministic_text(deterministic),
            name=name,
            **outputs(made),
        )
    return tensor, made


def directed(
    selector: Tensor, variants: Sequence[Tensor], specs: Sequence[Any], stops_on_empty: bool
) -> Made:
    """The elements of several datasets in the order that a dataset of numbers gives."""
    made = specs[0]
    for i, spec in enumerate(specs[1:], 1):
        if structure.legacy_types(spec) != structure.legacy_types(made):
            raise TypeError(
                f"Invalid `datasets`. `datasets` must have compatible element specs. Dataset 0 has "
                f"{made}, dataset {i} has {spec}."
            )
        made = structure.most_specific(made, spec)
    tensor = order_kernels.DirectedInterleaveDataset(
        selector, list(variants), stop_on_empty_dataset=stops_on_empty, **outputs(made)
    )
    return tensor, made


# -- States ----------------------------------------------------------------------------------


def _with_state(
    call: Callable[..., Any],
    state_spec: Any,
    spec: Any,
    name: str,
    state_of: Callable[[Any], Any],
) -> tuple[TracedFunction, Any]:
    """Traces a function of a state and an element, until the state's shapes hold what it makes.

    Returns:
      The function, and the spec of its state.
    """
    while True:
        traced = trace(call, spec, name, state_spec=state_spec)
        found = state_of(traced.spec)
        flat_found, flat_state = structure.flatten(found), structure.flatten(state_spec)
        if len(flat_found) != len(flat_state):
            raise TypeError(
                f"{name}: the new state has {len(flat_found)} components, the initial state "
                f"{len(flat_state)}"
            )
        for new, old in zip(flat_found, flat_state, strict=True):
            if type(new) is not type(old):
                raise TypeError(
                    f"The element classes for the new state must match the initial state. Expected "
                    f"{type(old).__name__}; got {type(new).__name__}."
                )
            if new.dtype != old.dtype:
                raise TypeError(
                    f"The element types for the new state must match the initial state. Expected "
                    f"{old.dtype!r}; got {new.dtype!r}."
                )
        weaker = structure.most_specific(state_spec, found)
        if structure.flat_shapes(weaker) == structure.flat_shapes(state_spec) or all(
            _sizes(a) == _sizes(b)
            for a, b in zip(
                structure.flat_shapes(weaker), structure.flat_shapes(state_spec), strict=True
            )
        ):
            return traced, state_spec
        state_spec = weaker


def _sizes(shape: TensorShape) -> Any:
    return shape.sizes


def scan(
    variant: Tensor, spec: Any, initial_state: Any, scan_func: Callable[..., Any], name: str | None
) -> Made:
    """See `Dataset.scan`."""
    state = structure.normalized(initial_state)

    def state_of(found: Any) -> Any:
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(
                "Invalid `scan_func`. `scan_func` should return a pair consisting of new state and "
                "the output value"
            )
        return found[0]

    traced, _ = _with_state(scan_func, structure.specs_of(state), spec, "Dataset.scan", state_of)
    made = traced.spec[1]
    tensor = functions.ScanDataset(
        variant,
        structure.to_tensors(state),
        traced.captured,
        f=traced.function,
        preserve_cardinality=True,
        name=name,
        **outputs(made),
    )
    return tensor, made


def reduce(
    variant: Tensor,
    spec: Any,
    initial_state: Any,
    reduce_func: Callable[..., Any],
    name: str | None,
) -> Any:
    """See `Dataset.reduce`."""
    state = structure.normalized(initial_state)
    traced, state_spec = _with_state(
        reduce_func, structure.specs_of(state), spec, "Dataset.reduce", lambda found: found
    )
    flat = functions.ReduceDataset(
        variant,
        structure.to_tensors(state),
        traced.captured,
        f=traced.function,
        name=name,
        **outputs(state_spec),
    )
    return structure.from_tensors(state_spec, flat)


# -- Groups -----------------------------------------------------------------------------------


def _key_function(key_func: Callable[..., Any], spec: Any) -> TracedFunction:
    key = trace(key_func, spec, "Dataset.group_by_window.key_func")
    _check_int64(key, "key_func")
    return key


def _check_int64(traced: TracedFunction, name: str) -> None:
    found = traced.spec
    if (
        not isinstance(found, TensorSpec)
        or found.dtype != dtypes.int64
        or not found.shape.is_compatible_with(scalar())
    ):
        raise ValueError(
            f"Invalid `{name}`. `{name}` must return a single `tf.int64` scalar tensor but its "
            f"return type is {found}."
        )


def group_by_window(
    variant: Tensor,
    spec: Any,
    key_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    window_size: Any,
    window_size_func: Callable[..., Any] | None,
) -> Made:
    """See `Dataset.group_by_window`."""
    if (window_size is None) == (window_size_func is None):
        raise ValueError(
            "Either the `window_size` argument or the `window_size_func` argument must be "
            "specified, but not both."
        )
    if window_size is not None:
        size = int64(window_size, "window_size")
        window_size_func = lambda key: size  # noqa: E731
    assert window_size_func is not None
    number = TensorSpec([], dtypes.int64)
    key = _key_function(key_func, spec)
    reduced = trace(
        reduce_func,
        (number, structure.DatasetSpec(spec)),
        "Dataset.group_by_window.reduce_func",
        several=True,
    )
    made = dataset_result(reduced, "reduce_func")
    window = trace(window_size_func, number, "Dataset.group_by_window.window_size_func")
    _check_int64(window, "window_size_func")
    tensor = functions.GroupByWindowDataset(
        variant,
        key.captured,
        reduced.captured,
        window.captured,
        key_func=key.function,
        reduce_func=reduced.function,
        window_size_func=window.function,
        **outputs(made),
    )
    return tensor, made


def group_by_reducer(
    variant: Tensor,
    spec: Any,
    key_func: Callable[..., Any],
    init_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    finalize_func: Callable[..., Any],
) -> Made:
    """One element for each key; see `tf.data.experimental.group_by_reducer`."""
    key = _key_function(key_func, spec)
    init = trace(init_func, TensorSpec([], dtypes.int64), "Dataset.group_by_reducer.init_func")
    reduced, state_spec = _with_state(
        reduce_func, init.spec, spec, "Dataset.group_by_reducer.reduce_func", lambda found: found
    )
    final = trace(
        finalize_func, (state_spec,), "Dataset.group_by_reducer.finalize_func", several=True
    )
    tensor = functions.GroupByReducerDataset(
        variant,
        key.captured,
        init.captured,
        reduced.captured,
        final.captured,
        key_func=key.function,
        init_func=init.function,
        reduce_func=reduced.function,
        finalize_func=final.function,
        **outputs(final.spec),
    )
    return tensor, final.spec
