"""Joining tensors (concat, stack) and taking them apart (split, unstack).

Also the conversion of Python lists that contain tensors: ``[x, 1.0]`` becomes one Pack node.
Kernels are dual, so that shapes put together from parts fold, and strings are joined on the
host.
"""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import Dimension, TensorShape, as_shape, unknown_shape
from millrace.graph import constant_value
from millrace.graph.convert import (
    convert_to_tensor,
    dtype_of,
    is_tensor_like,
    register_tensor_conversion_function,
)
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, merge_shapes
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import identity as array_identity
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.array import slicing as array_slicing
from millrace.ops.array.constant import constant
from millrace.ops.array.rules import known_axis, normal_axis, shape_text
from millrace.ops.math import comparison

__all__ = [
    "concat",
    "meshgrid",
    "pack",
    "parallel_stack",
    "split",
    "stack",
    "unpack",
    "unstack",
]

#: More parts than this are cut out by one SplitV instead of a Slice each.
_MAX_SLICES = 16


# -- concat ------------------------------------------------------------------------------


def _joined_shape(shapes: list[TensorShape], axis: int | None) -> TensorShape:
    """What parts joined along `axis` have for a shape; None for an axis that is not known."""
    rank = next((s.ndims for s in shapes if s.ndims is not None), None)
    if rank is None:
        return unknown_shape()
    for shape in shapes:
        if shape.ndims is not None and shape.ndims != rank:
            raise ValueError(
                f"Shapes must be equal rank, but are {rank} and {shape.ndims}. Shapes are "
                f"{' and '.join(shape_text(s.sizes) for s in shapes if s.sizes is not None)}"
            )
    if rank == 0:
        raise ValueError("Can't concatenate scalars (use tf.stack instead)")
    if axis is None:
        return unknown_shape(rank)
    total: int | None = 0
    others = unknown_shape(rank - 1)
    for shape in shapes:
        if shape.sizes is None:
            total = None
            continue
        size = shape.sizes[axis]
        total = None if total is None or size is None else total + size
        rest = [*shape.sizes[:axis], *shape.sizes[axis + 1 :]]
        try:
            others = merge_shapes(others, TensorShape(rest))
        except ValueError:
            raise ValueError(
                f"Dimension sizes other than that of axis {axis} must be equal, but the shapes are "
                f"{' and '.join(shape_text(s.sizes) for s in shapes if s.sizes is not None)}"
            ) from None
    assert others.sizes is not None
    return TensorShape([*others.sizes[:axis], total, *others.sizes[axis:]])


def _concat_axis(c: ShapeContext, which: str, shapes: list[TensorShape]) -> int | None:
    rank = next((s.ndims for s in shapes if s.ndims is not None), None)
    return None if not rank else known_axis(c, which, rank)


def _concat_shape(c: ShapeContext) -> TensorShape:
    shapes = c.shapes("values")
    return _joined_shape(shapes, _concat_axis(c, "axis", shapes))


def _two_shapes(first: Any, i: int, other: Any) -> str:
    return f"shape[0] = {shape_text(first)} vs. shape[{i}] = {shape_text(other)}"


def _concatenate(values: list[Any], axis: Any, xp: Any) -> Any:
    first = values[0].shape
    if not first:
        raise ValueError("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
    rank = len(first)
    place = normal_axis(
        axis.item(),
        rank,
        f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), but got "
        f"{axis.item()}",
    )
    for i, value in enumerate(values):
        if value.ndim != rank:
            both = _two_shapes(first, i, value.shape)
            raise ValueError(f"ConcatOp : Ranks of all input tensors should match: {both}")
        for k in range(rank):
            if k != place and value.shape[k] != first[k]:
                both = _two_shapes(first, i, value.shape)
                raise ValueError(f"ConcatOp : Dimension {k} in both shapes must be equal: {both}")
    return xp.concatenate(values, place)


@op(
    "ConcatV2(values: N*T, axis: Tidx) -> output: T where N: int >= 2; Tidx: index = int32",
    shape=_concat_shape,
    static=("axis",),
)
def ConcatV2(values: list[Any], axis: Any, *, xp: Any) -> Any:
    """Tensors one after the other along an axis."""
    return _concatenate(values, axis, xp)


@ConcatV2.on_host
def _(node: Any, known: Any) -> Any:
    if known[-1] is None or known[-1].size != 1:
        return None
    axis = int(known[-1].item())
    return lambda values, _: np.concatenate(values, axis)


def _old_concat_shape(c: ShapeContext) -> TensorShape:
    shapes = c.shapes("values")
    return _joined_shape(shapes, _concat_axis(c, "concat_dim", shapes))


@op(
    "Concat(concat_dim: int32, values: N*T) -> output: T where N: int >= 2",
    shape=_old_concat_shape,
    static=("concat_dim",),
)
def Concat(concat_dim: Any, values: list[Any], *, xp: Any) -> Any:
    """`ConcatV2` with the arguments in the order of old graphs."""
    return _concatenate(values, concat_dim, xp)


@ConcatV2.gradient
def _(op: Operation, grad: Any) -> Any:
    return [*_concat_gradient(op.inputs[:-1], op.inputs[-1], grad), None]


@Concat.gradient
def _(op: Operation, grad: Any) -> Any:
    return [None, *_concat_gradient(op.inputs[1:], op.inputs[0], grad)]


def _concat_gradient(inputs: Sequence[Tensor], axis: Tensor, grad: Any) -> list[Any]:
    """The part of `grad` that belongs to each input."""
    if isinstance(grad, IndexedSlices):
        return _slices_of_parts(inputs, axis, grad)
    known, rank = constant_value.constant_value(axis), inputs[0].shape.ndims
    if known is not None and rank is not None:
        place: Any = constant(int(known) % rank, dtypes.int32)
    else:
        place = axis % array_shape.rank(inputs[0])
    sizes = _shapes_of(inputs)
    if len(inputs) > _MAX_SLICES:
        lengths = array_slicing.slice(stack(sizes, 1), stack([place, 0]), [1, -1])
        return list(split(grad, array_shape.squeeze(lengths, 0), place, num=len(inputs)))
    offsets = ConcatOffset(place, sizes)
    return [
        array_slicing.slice(grad, begin, size) for begin, size in zip(offsets, sizes, strict=True)
    ]


def _shapes_of(inputs: Sequence[Tensor]) -> list[Tensor]:
    if all(t.shape.is_fully_defined() for t in inputs):
        return [array_shape.shape(t) for t in inputs]
    return array_shape.shape_n(inputs)


def _slices_of_parts(inputs: Sequence[Tensor], axis: Tensor, grad: IndexedSlices) -> list[Any]:
    """Sparse rows of a concatenation, as sparse rows of its parts."""
    known = constant_value.constant_value(axis)
    rank = inputs[0].shape.ndims
    if known is None or (rank is None and known != 0):
        raise ValueError("Can only compute IndexedSlices gradient with statically-known concat_dim")
    place = int(known) % rank if rank is not None else 0
    shapes = _shapes_of(inputs)
    if place > 0:
        # Every part has the same rows: the columns are what is cut.
        starts = ConcatOffset(place, shapes)
        parts = []
        for begin, size in zip(starts, shapes, strict=True):
            begin_tail, size_tail = (
                array_slicing.slice(begin, [1], [-1]),
                array_slicing.slice(size, [1], [-1]),
            )
            values = array_slicing.slice(
                grad.values, concat([[0], begin_tail], 0), concat([[-1], size_tail], 0)
            )
            parts.append(IndexedSlices(values, grad.indices, size))
        return parts
    parts = []
    start: Any = constant(0, grad.indices.dtype)
    for shape in shapes:
        count = cast.cast(shape[0], grad.indices.dtype)
        inside = comparison.logical_and(
            comparison.greater_equal(grad.indices, start),
            comparison.less(grad.indices, start + count),
        )
        chosen = array_shape.squeeze(array_select.where(inside), [1])
        parts.append(
            IndexedSlices(
                array_gather.gather(grad.values, chosen),
                array_gather.gather(grad.indices, chosen) - start,
                shape,
            )
        )
        start = start + count
    return parts


@dispatched
def concat(
    values: Any = None, axis: Any = None, name: str | None = "concat", concat_dim: Any = None
) -> Tensor:
    """Tensors one after the other along an axis.

    ``tf.concat(axis, values)``, the order of TensorFlow before 1.0, is understood when the
    first argument is a number and the second a list.

    Args:
      values: A list of tensors, equal in all dimensions but one.
      axis: That dimension.
      name: Name of the op.
      concat_dim: The old name of `axis`.
    """
    if concat_dim is not None:
        if axis is not None and values is None:
            values = axis
        axis = concat_dim
    elif isinstance(axis, list | tuple) and _is_number(values):
        values, axis = axis, values
    parts = list(values) if isinstance(values, list | tuple) else [values]
    if len(parts) == 1:
        # An axis that is no scalar is an error also where nothing is joined.
        with name_scope(name, "concat", parts):
            axis_tensor = convert_to_tensor(axis, dtypes.int32, name="concat_dim")
            axis_tensor.shape.assert_has_rank(0)
            alone: Tensor = array_identity.identity(parts[0], name="concat")
            return alone
    result: Tensor = ConcatV2(parts, axis, name=name or "concat")
    return result


#: What TensorFlow 1 says that `concat` takes; older orders and names are understood besides.
concat.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter("values", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter("axis", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default="concat"),
    ]
)


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.shape.ndims == 0 and value.dtype.base_dtype.is_integer
    return isinstance(value, numbers.Integral)


def _same_shapes(c: ShapeContext) -> list[TensorShape]:
    return c.shapes("shape")


@op(
    "ConcatOffset(concat_dim: int32, shape: N*shape_type) -> offset: N*shape_type "
    "where N: int >= 2; shape_type: index = int32",
    shape=_same_shapes,
    gradient=NO_GRADIENT,
)
def ConcatOffset(concat_dim: Any, shape: list[Any], *, xp: Any) -> Any:
    """Where each part begins in the concatenation of tensors with the given shapes."""
    ranks = {s.shape[0] for s in shape}
    if len(ranks) > 1:
        raise ValueError(f"input shapes have different ranks: {sorted(ranks)}")
    (rank,) = ranks
    chosen = xp.arange(rank) == concat_dim % max(rank, 1)
    offsets = []
    start = xp.zeros_like(shape[0])
    for part in shape:
        offsets.append(start)
        start = start + xp.where(chosen, part, xp.zeros_like(part))
    return offsets


@ConcatOffset.on_host
def _(node: Any, known: Any) -> Any:
    if known[0] is None or known[0].size != 1:
        return None
    axis = int(known[0].item())

    def offsets(_: Any, shapes: list[Any]) -> Any:
        found, start, rank = [], 0, len(shapes[0])
        for shape in shapes:
            if len(shape) != rank:
                raise ValueError("ConcatOffset: the ranks differ")
            offset = np.zeros_like(shape)
            if rank:
                offset[axis % rank] = start
                start += int(shape[axis % rank])
            found.append(offset)
        return found

    return offsets


# -- stack -------------------------------------------------------------------------------


def _packed_shape(c: ShapeContext) -> TensorShape:
    shape = unknown_shape()
    for tensor in c.inputs:
        shape = merge_shapes(shape, tensor.shape)
    if shape.sizes is None:
        return unknown_shape()
    places = len(shape.sizes) + 1
    axis = normal_axis(c.attr("axis"), places, f"Invalid axis {c.attr('axis')}; must be in "
                       f"[{-places},{places})")  # fmt: skip
    return TensorShape([*shape.sizes[:axis], len(c.inputs), *shape.sizes[axis:]])


@op("Pack(values: N*T) -> output: T where N: int >= 1; axis: int = 0", shape=_packed_shape)
def Pack(values: list[Any], *, axis: int, xp: Any) -> Any:
    """Tensors of one shape, side by side along a new axis."""
    first = values[0].shape
    for i, value in enumerate(values):
        if value.shape != first:
            raise ValueError(
                f"Shapes of all inputs must match: values[0].shape = {shape_text(first)} != "
                f"values[{i}].shape = {shape_text(value.shape)}"
            )
    places = len(first) + 1
    place = normal_axis(axis, places, f"axis = {axis} not in [{-places}, {places})")
    return xp.stack(values, place)


@Pack.on_host
def _(node: Any, known: Any) -> Any:
    axis = node.attrs["axis"]
    if axis not in (0, -1) or not np.dtype(node.attrs["T"].as_numpy_dtype).isbuiltin:
        return None
    whole = functools.partial(Pack.kernel, axis=axis, xp=np)

    def packed(values: list[Any]) -> Any:
        for value in values:
            if value.ndim:
                return whole(values)
        return np.array([value.item() for value in values], values[0].dtype)

    return packed


@Pack.gradient
def _(op: Operation, grad: Any) -> Any:
    return unstack(convert_to_tensor(grad), num=op.attrs["N"], axis=op.attrs["axis"])


@dispatched
def stack(values: Any, axis: int = 0, name: str | None = "stack") -> Tensor:
    """Tensors of one shape, side by side along a new axis.

    Args:
      values: A list of tensors of one shape and type.
      axis: Where the new dimension goes.
      name: Name of the op.

    Raises:
      ValueError: The shapes differ, or there is no such axis.
    """
    if axis == 0:
        try:
            # A list without tensors is one constant.
            return convert_to_tensor(values, name=name)
        except (TypeError, ValueError, NotImplementedError):
            pass
    first = convert_to_tensor(values[0], name=name)
    if first.shape.ndims is not None:
        places = first.shape.ndims + 1
        normal_axis(axis, places, f"Argument `axis` = {axis} not in range [{-places}, {places})")
    result: Tensor = Pack(list(values), axis=axis, name=name)
    return result


def pack(values: Any, axis: int = 0, name: str | None = "pack") -> Tensor:
    """The old name of `stack`."""
    return stack(values, axis, name)


def _parallel_shape(c: ShapeContext) -> TensorShape:
    shape = as_shape(c.attr("shape"))
    if not shape.is_fully_defined():
        raise ValueError("shape attr must be fully defined")
    for tensor in c.inputs:
        if tensor.shape.sizes is not None and tensor.shape.sizes[:1] not in ((1,), (None,)):
            raise ValueError("Size of first dimension must be 1")
    return shape


@op("ParallelConcat(values: N*T) -> output: T where N: int >= 1; shape: shape",
    shape=_parallel_shape, gradient=NO_GRADIENT)  # fmt: skip
def ParallelConcat(values: list[Any], *, xp: Any) -> Any:
    """Tensors with one row each, one below the other."""
    return xp.concatenate(values, 0)


def parallel_stack(values: Any, name: str | None = "parallel_stack") -> Tensor:
    """`stack` along axis 0 for tensors of known shape."""
    with name_scope(name, "parallel_stack", list(values)):
        first = convert_to_tensor(values[0])
        shape = TensorShape([len(values)]).concatenate(first.shape)
        rows = [array_shape.expand_dims(value, 0) for value in values]
        result: Tensor = ParallelConcat(rows, shape=shape)
        return result


# -- Lists that contain tensors ----------------------------------------------------------


def _tensor_type(values: Any) -> DType | None:
    """The type of the first tensor in nested lists; None when there is no tensor."""
    for value in values:
        if isinstance(value, list | tuple):
            found = _tensor_type(value)
        else:
            found = dtype_of(value) if is_tensor_like(value) else None
        if found is not None:
            return found
    return None


def _packed(values: Any, dtype: DType, name: str) -> Any:
    """One Pack node for a list; constants for what is no tensor."""
    if not any(isinstance(v, list | tuple) or is_tensor_like(v) for v in values):
        return constant(values, dtype, name=name)
    with name_scope(name) as scope:
        parts = []
        for i, value in enumerate(values):
            if is_tensor_like(value):
                found = dtype_of(value)
                if found != dtype:
                    raise TypeError(
                        f"Cannot convert a list containing a tensor of dtype {found!r} to "
                        f"{dtype!r} (Tensor is: {value!r})"
                    )
                parts.append(convert_to_tensor(value))
            elif isinstance(value, list | tuple):
                parts.append(
                    _packed(value, dtype, str(i))
                    if _tensor_type(value) is not None
                    else constant(value, dtype, name=str(i))
                )
            else:
                parts.append(constant(value, dtype, name=str(i)))
        return Pack(parts, name=scope)


def _cast_within(values: Any, dtype: DType) -> Any:
    if isinstance(values, list | tuple):
        return [_cast_within(v, dtype) for v in values]
    if is_tensor_like(values) and dtype_of(values) != dtype:
        return cast.cast(values, dtype)
    return values


def _convert_list(
    value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    found = None if as_ref else _tensor_type(value)
    if found is None:
        return NotImplemented
    wanted = found if dtype is None else dtypes.as_dtype(dtype).base_dtype
    if wanted != found:
        value = _cast_within(value, wanted)
    return _packed(value, wanted, name or "packed")


# Before the conversion of plain values, which cannot deal with tensors inside.
register_tensor_conversion_function((list, tuple), _convert_list, 99)


# -- unstack and split -------------------------------------------------------------------


def _unpacked_shapes(c: ShapeContext) -> list[TensorShape]:
    sizes, count = c.shape(0).sizes, c.attr("num")
    if sizes is None:
        return [unknown_shape()] * count
    rank = len(sizes)
    axis = normal_axis(
        c.attr("axis"), rank, f"Invalid axis {c.attr('axis')}; must be in [{-rank},{rank})"
    )
    if sizes[axis] not in (None, count):
        raise ValueError(f"Dimension must be {count} but is {sizes[axis]}")
    return [TensorShape([*sizes[:axis], *sizes[axis + 1 :]])] * count


@op("Unpack(value: T) -> output: num*T where num: int >= 0; axis: int = 0", shape=_unpacked_shapes)
def Unpack(value: Any, *, num: int, axis: int, xp: Any) -> Any:
    """The slices of a tensor along an axis."""
    rank = value.ndim
    place = normal_axis(axis, rank, f"axis = {axis} not in [{-rank}, {rank})")
    if value.shape[place] != num:
        raise ValueError(
            f"Input shape axis {place} must equal {num}, got shape {shape_text(value.shape)}"
        )
    before = (slice(None),) * place
    # Indexing a host array down to a scalar would give a plain number.
    rest = value.shape[:place] + value.shape[place + 1 :]
    return [value[(*before, slice(i, i + 1))].reshape(rest) for i in range(num)]


@Unpack.gradient
def _(op: Operation, *grads: Any) -> Any:
    return stack(grads, axis=op.attrs["axis"])


def unstack(
    value: Any, num: int | None = None, axis: int = 0, name: str | None = "unstack"
) -> list[Tensor]:
    """The slices of a tensor along an axis, as a list.

    Args:
      value: The tensor.
      num: The size of the axis; told from the static shape when None.
      axis: The axis.
      name: Name of the op.

    Raises:
      ValueError: There is no such axis, or its size is not known.
    """
    if num is None:
        value = convert_to_tensor(value)
        sizes = value.shape.sizes
        if sizes is not None:
            rank = len(sizes)
            place = normal_axis(
                axis, rank, f"Argument `axis` = {axis} not in range [{-rank}, {rank})"
            )
            num = sizes[place]
        if num is None:
            raise ValueError(f"Cannot infer argument `num` from shape {value.shape}")
    result: list[Tensor] = Unpack(value, num=num, axis=axis, name=name)
    return result


def unpack(
    value: Any, num: int | None = None, axis: int = 0, name: str | None = "unpack"
) -> list[Tensor]:
    """The old name of `unstack`."""
    return unstack(value, num, axis, name)


def _split_shapes(c: ShapeContext) -> list[TensorShape]:
    sizes, count = c.shape("value").sizes, c.attr("num_split")
    if sizes is None:
        return [unknown_shape()] * count
    axis = known_axis(c, "split_dim", len(sizes))
    if axis is None:
        return [unknown_shape(len(sizes))] * count
    size = sizes[axis]
    if size is not None and size % count:
        raise ValueError(f"Dimension size must be evenly divisible by {count} but is {size}")
    part = None if size is None else size // count
    return [TensorShape([*sizes[:axis], part, *sizes[axis + 1 :]])] * count


def _split_place(split_dim: Any, rank: int) -> int:
    return normal_axis(
        split_dim.item(),
        rank,
        f"-input rank(-{rank}) <= split_dim < input rank ({rank}), but got {split_dim.item()}",
    )


@op(
    "Split(split_dim: int32, value: T) -> output: num_split*T where num_split: int >= 1",
    shape=_split_shapes,
    static=("split_dim",),
)
def Split(split_dim: Any, value: Any, *, num_split: int, xp: Any) -> Any:
    """Equal parts of a tensor along an axis."""
    place = _split_place(split_dim, value.ndim)
    size = value.shape[place]
    if size % num_split:
        raise ValueError(
            "Number of ways to split should evenly divide the split dimension, but got split_dim "
            f"{place} (size = {size}) and num_split {num_split}"
        )
    return _cut(value, place, [size // num_split] * num_split)


@Split.on_host
def _(node: Any, known: Any) -> Any:
    if known[0] is None or known[0].size != 1:
        return None
    axis, count = int(known[0].item()), node.attrs["num_split"]
    if axis not in (0, 1, -1):
        return None

    def split(_: Any, value: Any) -> Any:
        size, rest = divmod(value.shape[axis], count)
        if rest or (axis == 1 and value.ndim < 2):
            raise ValueError("Split: the parts are not equal")
        bounds = [(i * size, i * size + size) for i in range(count)]
        if axis == 0:
            return [value[a:b] for a, b in bounds]
        if axis == 1:
            return [value[:, a:b] for a, b in bounds]
        return [value[..., a:b] for a, b in bounds]

    return split


def _cut(value: Any, axis: int, lengths: list[int]) -> list[Any]:
    parts, start = [], 0
    before = (slice(None),) * axis
    for length in lengths:
        parts.append(value[(*before, slice(start, start + length))])
        start += length
    return parts


@Split.gradient
def _(op: Operation, *grads: Any) -> Any:
    return [None, concat(list(grads), op.inputs[0])]


def _split_sizes_shapes(c: ShapeContext) -> list[TensorShape]:
    sizes, count = c.shape("value").sizes, c.attr("num_split")
    if sizes is None:
        return [unknown_shape()] * count
    axis = known_axis(c, "split_dim", len(sizes))
    if axis is None:
        return [unknown_shape(len(sizes))] * count
    asked = c.value("size_splits")
    lengths: list[int | None] = [None] * count
    if asked is not None:
        lengths = [None if n == -1 else int(n) for n in asked]
        if len(lengths) != count:
            raise ValueError(f"Length of size_splits should be equal to num_outputs: {count}")
        whole = sizes[axis]
        known = sum(n for n in lengths if n is not None)
        if whole is not None:
            if known != whole if None not in lengths else known > whole:
                raise ValueError(
                    "Sum of output sizes must match the size of the original Tensor along the "
                    f"split dimension ({whole}), or be less with a -1 among them, but is {known}"
                )
            if lengths.count(None) == 1:
                lengths = [whole - known if n is None else n for n in lengths]
    elif count == 1:
        lengths = [sizes[axis]]
    return [TensorShape([*sizes[:axis], n, *sizes[axis + 1 :]]) for n in lengths]


@op(
    "SplitV(value: T, size_splits: Tlen, split_dim: int32) -> output: num_split*T "
    "where num_split: int >= 1; Tlen: {int8, int32, int64} = int64",
    shape=_split_sizes_shapes,
    static=("size_splits", "split_dim"),
)
def SplitV(value: Any, size_splits: Any, split_dim: Any, *, num_split: int, xp: Any) -> Any:
    """Parts of the given sizes of a tensor along an axis."""
    if size_splits.shape != (num_split,):
        raise ValueError(
            f"size_splits must have {num_split} elements, got shape {shape_text(size_splits.shape)}"
        )
    place = _split_place(split_dim, value.ndim)
    lengths = [int(n) for n in size_splits]
    known = sum(n for n in lengths if n != -1)
    if lengths.count(-1) > 1:
        raise ValueError("There can only be one -1 in the input.")
    whole = value.shape[place]
    if known != whole if -1 not in lengths else known > whole:
        raise ValueError(
            "Determined shape must either match input shape along split_dim exactly if fully "
            "specified, or be less than the size of the input along split_dim if not fully "
            f"specified.  Got: {known}"
        )
    if min(lengths) < -1:
        raise ValueError(f"Split size at index {lengths.index(min(lengths))} must be >= 0. "
                         f"Got: {min(lengths)}")  # fmt: skip
    return _cut(value, place, [whole - known if n == -1 else n for n in lengths])


@SplitV.gradient
def _(op: Operation, *grads: Any) -> Any:
    return [concat(list(grads), op.inputs[2]), None, None]


def split(
    value: Any = None,
    num_or_size_splits: Any = None,
    axis: Any = 0,
    num: int | None = None,
    name: str | None = "split",
    split_dim: Any = None,
    num_split: Any = None,
) -> list[Tensor]:
    """Parts of a tensor along an axis, as a list.

    ``tf.split(split_dim, num_split, value)``, the order of TensorFlow before 1.0, is
    understood when the first argument is a number and the third a tensor.

    Args:
      value: The tensor.
      num_or_size_splits: How many equal parts, or the size of each (one may be -1).
      axis: The axis.
      num: How many parts, where sizes are a tensor of unknown length.
      name: Name of the op.
      split_dim: The old name of `axis`.
      num_split: The old name of `num_or_size_splits`.

    Raises:
      ValueError: The number of parts is not known, or they do not fit.
    """
    if num_split is not None:
        num_or_size_splits = num_split
    if split_dim is not None:
        axis = split_dim
    if _is_number(value) and not _is_number(axis):
        value, axis = axis, value
    if isinstance(num_or_size_splits, numbers.Integral | Dimension):
        count = int(num_or_size_splits)
        result: list[Tensor] = Split(axis, value, num_split=count, name=name)
        return result
    sizes = convert_to_tensor(num_or_size_splits)
    if sizes.shape.ndims == 0:
        raise ValueError(
            "Rank-0 tensors are not supported as the num_or_size_splits argument to split. "
            f"Argument provided: {num_or_size_splits}"
        )
    if num is None:
        num = sizes.shape.sizes[0] if sizes.shape.sizes else None
        if num is None:
            raise ValueError(f"Cannot infer argument `num` from shape {num_or_size_splits}")
    result = SplitV(value, sizes, axis, num_split=num, name=name)
    return result


def meshgrid(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Coordinate grids from coordinate vectors.

    Args:
      *args: N vectors.
      **kwargs: ``indexing`` (``"xy"``, the default, or ``"ij"``) and ``name``.

    Returns:
      N tensors of N dimensions, one for each vector.

    Raises:
      TypeError: Another keyword is given.
      ValueError: `indexing` is something else.
    """
    indexing, name = kwargs.pop("indexing", "xy"), kwargs.pop("name", "meshgrid")
    if kwargs:
        raise TypeError(f"'{next(iter(kwargs))}' is an invalid keyword argument for this function")
    if indexing not in ("xy", "ij"):
        raise ValueError(
            f"Argument `indexing` parameter must be either 'xy' or 'ij', got '{indexing}'"
        )
    with name_scope(name, "meshgrid", list(args)):
        count = len(args)
        if not count:
            return []
        grids = []
        for i, vector in enumerate(args):
            target = [1] * count
            target[i] = -1
            grids.append(array_shape.reshape(stack(vector), target))
        sizes = [array_shape.size(vector) for vector in args]
        dtype = convert_to_tensor(args[0]).dtype.base_dtype
        if indexing == "xy" and count > 1:
            tail = [1] * (count - 2)
            grids[0] = array_shape.reshape(grids[0], [1, -1, *tail])
            grids[1] = array_shape.reshape(grids[1], [-1, 1, *tail])
            sizes[0], sizes[1] = sizes[1], sizes[0]
        ones: Any = array_fill.ones(sizes, dtype)
        return [grid * ones for grid in grids]
