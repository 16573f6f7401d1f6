"""Lists of tensors as values (TensorFlow's variants): what v2 loops and their gradients carry.

A value is never changed: a write gives a new list. Programs here do not build them; clients of
TensorFlow do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.define import op
from millrace.graph.gradient_walk import is_trainable, zeros_like
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, scalars, unknown
from millrace.ops.control_flow.tensor_list_value import (
    ElementShape,
    TensorList,
    boxed,
    merged,
    unset,
)
from millrace.platform import limits

__all__: list[str] = []

#: The shape of elements of which nothing is known.
UNKNOWN_SHAPE = -1


def _numpy_type(dtype: Any) -> Any:
    return object if dtype.name in ("variant", "string", "resource") else dtype.as_numpy_dtype


def _shape_of(element_shape: Any) -> ElementShape:
    sizes = np.asarray(element_shape)
    if sizes.ndim == 0:
        if int(sizes) != -1:
            raise ValueError(f"An element shape is a vector or -1, got {int(sizes)}")
        return None
    return tuple(int(size) for size in sizes)


def _element(tensors: TensorList, index: int, element_shape: Any) -> Any:
    item = tensors.items[index]
    if item is not None:
        return item
    shape = merged(tensors.shape, _shape_of(element_shape))
    for other in tensors.items:
        if other is not None:
            shape = merged(shape, np.shape(other))
    if shape is None or min(shape, default=0) < 0:
        raise ValueError(
            f"Trying to read an uninitialized tensor at {index} of a list, but the element shape "
            f"{shape} is not fully defined"
        )
    return np.zeros(shape, tensors.dtype)


def _checked(tensors: TensorList, item: Any) -> Any:
    if tensors.shape is not None and not isinstance(item, TensorList):
        merged(tensors.shape, tuple(item.shape))
    return item


def _list_of(handle: Any) -> TensorList:
    if not isinstance(handle, TensorList):
        raise ValueError("Input handle is not a list of tensors.")
    return handle


def _index(tensors: TensorList, index: Any) -> int:
    position = int(index)
    if not 0 <= position < len(tensors.items):
        raise ValueError(
            f"Trying to access element {position} in a list with {len(tensors.items)} elements."
        )
    return position


def _element_shape_rule(which: int) -> Any:
    def rule(c: ShapeContext) -> list[TensorShape]:
        shape = c.value_as_shape(which)
        return [shape] * c.output_count

    return rule


def _stack_shape(c: ShapeContext) -> TensorShape:
    count = c.attr("num_elements")
    first = TensorShape([count if count >= 0 else None])
    return first.concatenate(c.value_as_shape(1))


def _unknown(c: ShapeContext) -> list[TensorShape]:
    return [unknown_shape()] * c.output_count


def _pop_shape(c: ShapeContext) -> list[TensorShape]:
    return [TensorShape([]), c.value_as_shape(1)]


_TYPES = "where element_dtype: type; shape_type: {int32, int64}"


@op(
    "EmptyTensorList(element_shape: shape_type, max_num_elements: int32) -> handle: variant "
    f"{_TYPES}",
    shape=scalars,
    gradient=NO_GRADIENT,
    static=("element_shape", "max_num_elements"),
)
def EmptyTensorList(
    element_shape: Any, max_num_elements: Any, *, element_dtype: Any, xp: Any
) -> Any:
    """A list without elements."""
    return TensorList([], _numpy_type(element_dtype), _shape_of(element_shape))


@EmptyTensorList.on_host
def _(node: Any, known: Any) -> Any:
    if known[0] is None:
        return None
    dtype, shape = _numpy_type(node.attrs["element_dtype"]), _shape_of(known[0])
    return lambda _, __: TensorList([], dtype, shape)


@op(
    "TensorListReserve(element_shape: shape_type, num_elements: int32) -> handle: variant "
    f"{_TYPES}",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListReserve(element_shape: Any, num_elements: Any, *, element_dtype: Any) -> Any:
    """A list whose elements are not set."""
    count = int(num_elements)
    if count < 0:
        raise ValueError(f"The number of elements to reserve must be non-negative: {count}")
    shape = _shape_of(element_shape)
    return TensorList(unset(count), _numpy_type(element_dtype), shape)


@op(
    "TensorListPushBack(input_handle: variant, tensor: element_dtype) -> output_handle: variant "
    "where element_dtype: type",
    shape=scalars,
)
def TensorListPushBack(input_handle: Any, tensor: Any, *, xp: Any) -> Any:
    """The list with one more element at its end."""
    tensors = _list_of(input_handle)
    return tensors.push(_checked(tensors, tensor))


@op(
    "TensorListPopBack(input_handle: variant, element_shape: int32) -> "
    "(output_handle: variant, tensor: element_dtype) where element_dtype: type",
    shape=_pop_shape,
    static=("element_shape",),
)
def TensorListPopBack(input_handle: Any, element_shape: Any, *, xp: Any) -> Any:
    """The list without its last element, and that element."""
    tensors = _list_of(input_handle)
    rest, last = tensors.pop()
    if last is None:
        last = _element(tensors, rest.size, element_shape)
    return rest, last


@TensorListPushBack.gradient
def _(op: Operation, grad: Any) -> Any:
    pushed = op.inputs[1]
    rest, last = TensorListPopBack(grad, UNKNOWN_SHAPE, element_dtype=pushed.dtype.base_dtype)
    last.set_shape(pushed.shape)
    return [rest, last if is_trainable(pushed) else None]


@TensorListPopBack.gradient
def _(op: Operation, rest: Any, last: Any) -> Any:
    if rest is None:
        rest = zeros_like(op.outputs[0])
    if last is None:  # Of a type without gradients: the list must be as long all the same.
        last = zeros_like(op.outputs[1])
    return [TensorListPushBack(rest, last), None]


@op(
    "_JoinedElements(input_handle: variant, width: int32) -> tensor: element_dtype where "
    "element_dtype: type",
    shape=unknown,
    static=("width",),
)
def JoinedElements(input_handle: Any, width: Any, *, element_dtype: Any, xp: Any) -> Any:
    """The rows of all elements, one element after the other; `width` is the shape of a row."""
    return _list_of(input_handle).joined(tuple(np.asarray(width)), xp)


@op(
    "_PiecesLikeElements(tensor: element_dtype, input_handle: variant) -> output_handle: variant "
    "where element_dtype: type",
    shape=scalars,
    gradient=NO_GRADIENT,
)
def PiecesLikeElements(tensor: Any, input_handle: Any, *, xp: Any) -> Any:
    """Rows as a list whose elements have as many rows each as those of another one."""
    return _list_of(input_handle).pieces(tensor)


@JoinedElements.gradient
def _(op: Operation, grad: Any) -> Any:
    return [PiecesLikeElements(grad, op.inputs[0]), None]


@op(
    "TensorListLength(input_handle: variant) -> length: int32",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListLength(input_handle: Any) -> Any:
    """How many elements a list has."""
    return np.int32(_list_of(input_handle).size)


@op(
    "TensorListElementShape(input_handle: variant) -> element_shape: shape_type where "
    "shape_type: {int32, int64}",
    shape=_unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListElementShape(input_handle: Any, *, shape_type: Any) -> Any:
    """The shape that elements have, as far as it is known."""
    shape = _list_of(input_handle).shape
    return np.array(-1 if shape is None else shape, shape_type.as_numpy_dtype)


@op(
    "TensorListResize(input_handle: variant, size: int32) -> output_handle: variant",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListResize(input_handle: Any, size: Any) -> Any:
    """The list with elements taken from its end, or elements that are not set added there."""
    tensors, count = _list_of(input_handle), int(size)
    kept = tensors.items[:count]
    return tensors.with_items([*kept, *unset(count - len(kept))])


@op(
    "TensorListGetItem(input_handle: variant, index: int32, element_shape: Tshape) -> "
    "item: element_dtype where element_dtype: type; Tshape: {int32, int64} = int32",
    shape=_element_shape_rule(2),
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListGetItem(input_handle: Any, index: Any, element_shape: Any) -> Any:
    """One element."""
    tensors = _list_of(input_handle)
    return _element(tensors, _index(tensors, index), element_shape)


@op(
    "TensorListSetItem(input_handle: variant, index: int32, item: element_dtype) -> "
    "output_handle: variant where element_dtype: type; "
    "resize_if_index_out_of_bounds: bool = false",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListSetItem(
    input_handle: Any, index: Any, item: Any, *, resize_if_index_out_of_bounds: bool
) -> Any:
    """The list with one element replaced."""
    tensors = _list_of(input_handle)
    missing = int(index) + 1 - len(tensors.items)
    if resize_if_index_out_of_bounds and missing > 0:
        tensors = tensors.with_items([*tensors.items, *unset(missing)])
    items = list(tensors.items)
    items[_index(tensors, index)] = _checked(tensors, item)
    return tensors.with_items(items)


@op(
    "TensorListStack(input_handle: variant, element_shape: int32) -> tensor: element_dtype where "
    "element_dtype: type; num_elements: int = -1",
    shape=_stack_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListStack(input_handle: Any, element_shape: Any, *, num_elements: int) -> Any:
    """All elements as one tensor."""
    tensors = _list_of(input_handle)
    if num_elements >= 0 and num_elements != len(tensors.items):
        raise ValueError(
            f"Operation expected a list with {num_elements} elements but got a list with "
            f"{len(tensors.items)} elements."
        )
    return _gathered(tensors, range(len(tensors.items)), element_shape)


def _gathered(tensors: TensorList, positions: Any, element_shape: Any) -> Any:
    shape = merged(tensors.shape, _shape_of(element_shape))
    if shape is not None and min(shape, default=0) >= 0:
        size = len(positions) * math.prod(shape) * np.dtype(tensors.dtype).itemsize
        limits.MEMORY_BYTES.check(size, f"OOM when stacking {len(positions)} tensors, in bytes")
    found = [_element(tensors, i, element_shape) for i in positions]
    if found:
        return np.stack([np.asarray(item) for item in found])
    shape = merged(tensors.shape, _shape_of(element_shape))
    if shape is None or min(shape, default=0) < 0:
        raise ValueError(
            "Tried to stack elements of an empty list with non-fully-defined element_shape: "
            f"{shape}"
        )
    return np.zeros((0, *shape), tensors.dtype)


@op(
    "TensorListGather(input_handle: variant, indices: int32, element_shape: int32) -> "
    "values: element_dtype where element_dtype: type",
    shape=_unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListGather(input_handle: Any, indices: Any, element_shape: Any) -> Any:
    """Some elements as one tensor."""
    tensors = _list_of(input_handle)
    return _gathered(tensors, [_index(tensors, i) for i in indices], element_shape)


@op(
    f"TensorListFromTensor(tensor: element_dtype, element_shape: shape_type) -> "
    f"output_handle: variant {_TYPES}",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListFromTensor(tensor: Any, element_shape: Any) -> Any:
    """The rows of a tensor as a list."""
    return TensorList(list(tensor), tensor.dtype, _shape_of(element_shape))


@op(
    "TensorListScatterV2(tensor: element_dtype, indices: int32, element_shape: shape_type, "
    f"num_elements: int32) -> output_handle: variant {_TYPES}",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListScatterV2(tensor: Any, indices: Any, element_shape: Any, num_elements: Any) -> Any:
    """A list with the rows of a tensor at given positions."""
    count = max(int(num_elements), max((int(i) + 1 for i in indices), default=0))
    empty = TensorList(unset(count), tensor.dtype, _shape_of(element_shape))
    return _scattered(empty, tensor, indices)


@op(
    "TensorListScatterIntoExistingList(input_handle: variant, tensor: element_dtype, "
    "indices: int32) -> output_handle: variant where element_dtype: type",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorListScatterIntoExistingList(input_handle: Any, tensor: Any, indices: Any) -> Any:
    """The list with the rows of a tensor at given positions."""
    tensors = _list_of(input_handle)
    missing = max((int(i) + 1 for i in indices), default=0) - len(tensors.items)
    tensors = tensors.with_items([*tensors.items, *unset(missing)])
    return _scattered(tensors, tensor, indices)


def _scattered(tensors: TensorList, rows: Any, indices: Any) -> TensorList:
    items = list(tensors.items)
    for position, row in zip(indices, rows, strict=True):
        items[_index(tensors, position)] = _checked(tensors, row)
    return tensors.with_items(items)


@op(
    "OptionalFromValue(components: [Toutput_types]) -> optional: variant where "
    "Toutput_types: list(type) >= 1",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def OptionalFromValue(components: list[Any]) -> Any:
    """A value that is there."""
    return boxed(tuple(components))


@op("OptionalNone() -> optional: variant", shape=scalars, gradient=NO_GRADIENT, host=True)
def OptionalNone() -> Any:
    """A value that is not there."""
    return boxed(None)


@op(
    "OptionalHasValue(optional: variant) -> has_value: bool",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def OptionalHasValue(optional: Any) -> Any:
    """Whether a value is there."""
    return np.bool_(optional[()] is not None)


def _optional_shapes(c: ShapeContext) -> list[TensorShape]:
    return list(c.attr("output_shapes"))


@op(
    "OptionalGetValue(optional: variant) -> components: [output_types] where "
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    shape=_optional_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def OptionalGetValue(optional: Any) -> Any:
    """What is there."""
    found = optional[()]
    if found is None:
        raise ValueError("The given optional does not have a value.")
    return list(found)
