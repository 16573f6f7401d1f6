"""Questions about shapes, ops that give a tensor another shape, and broadcasting.

Every kernel here is dual, so that shape arithmetic folds while a program is traced and
string tensors pass through on the host. The lowest of the array modules.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape, unknown_shape
from millrace.graph import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import (
    ShapeContext,
    broadcast_shapes,
    scalars,
    vector_of_unknown,
)
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array.constant import constant
from millrace.ops.array.rules import normal_axis, shape_text
from millrace.ops.math import reduction

#: So many elements are copied more quickly than NumPy makes a view that repeats one.
SMALL_COPY = 1 << 14

__all__ = [
    "broadcast_dynamic_shape",
    "broadcast_static_shape",
    "broadcast_to",
    "expand_dims",
    "rank",
    "reshape",
    "shape",
    "shape_n",
    "size",
    "squeeze",
]


# -- Questions about shapes --------------------------------------------------------------


def _one_entry_per_dimension(c: ShapeContext) -> list[TensorShape]:
    return [TensorShape([t.shape.ndims]) for t in c.inputs]


@op(
    "Shape(input: T) -> output: out_type where out_type: index = int32",
    shape=_one_entry_per_dimension,
    gradient=NO_GRADIENT,
)
def Shape(input: Any, *, out_type: Any, xp: Any) -> Any:
    """The sizes of the input's dimensions; a host value even while tracing."""
    return np.array(input.shape, out_type.as_numpy_dtype)


@Shape.on_host
def _(node: Any, known: Any) -> Any:
    dtype = np.dtype(node.attrs["out_type"].as_numpy_dtype)
    array = np.array
    return lambda x: array(x.shape, dtype)


@op(
    "ShapeN(input: N*T) -> output: N*out_type where out_type: index = int32",
    shape=_one_entry_per_dimension,
    gradient=NO_GRADIENT,
)
def ShapeN(input: list[Any], *, out_type: Any, xp: Any) -> Any:
    """`Shape` of each input."""
    return [np.array(x.shape, out_type.as_numpy_dtype) for x in input]


@ShapeN.on_host
def _(node: Any, known: Any) -> Any:
    dtype = np.dtype(node.attrs["out_type"].as_numpy_dtype)
    array = np.array
    return lambda inputs: [array(x.shape, dtype) for x in inputs]


@op(
    "Size(input: T) -> output: out_type where out_type: index = int32",
    shape=scalars,
    gradient=NO_GRADIENT,
)
def Size(input: Any, *, out_type: Any, xp: Any) -> Any:
    """The number of elements."""
    return np.array(math.prod(input.shape), out_type.as_numpy_dtype)


@op("Rank(input: T) -> output: int32", shape=scalars, gradient=NO_GRADIENT)
def Rank(input: Any, *, xp: Any) -> Any:
    """The number of dimensions."""
    return np.array(len(input.shape), np.int32)


def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """The shape of a tensor, as an integer vector.

    Args:
      input: A tensor or SparseTensor.
      name: Name of the op.
      out_type: int32 (the default) or int64.
    """
    return shape_of(input, name, out_type)


def shape_of(input: Any, name: str | None, out_type: Any, optimize: bool = True) -> Tensor:
    """`shape`; with `optimize`, a shape that is known becomes a constant."""
    kind = dtypes.int32 if out_type is None else dtypes.as_dtype(out_type)
    with name_scope(name, "Shape", [input]) as scope:
        if isinstance(input, SparseTensor):
            result: Tensor = cast.cast(input.dense_shape, kind)
            return result
        tensor = convert_to_tensor(input)
        if optimize and tensor.shape.is_fully_defined():
            return constant(tensor.shape.as_list(), kind, name=scope)
        result = Shape(tensor, out_type=kind, name=scope)
        return result


#: For functions with an argument of that name.
_shape = shape


def shape_n(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """The shapes of several tensors."""
    result: list[Tensor] = ShapeN(list(input), out_type=out_type, name=name)
    return result


@dispatched
def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """The number of elements of a tensor; arguments as in `shape`."""
    return size_of(input, name, out_type)


def size_of(input: Any, name: str | None, out_type: Any, optimize: bool = True) -> Tensor:
    """`size`; with `optimize`, a size that is known becomes a constant."""
    kind = dtypes.int32 if out_type is None else dtypes.as_dtype(out_type)
    with name_scope(name, "Size", [input]) as scope:
        if isinstance(input, SparseTensor):
            sizes = cast.cast(input.dense_shape, kind)
            result: Tensor = reduction.reduce_prod(sizes, 0, name=scope)
            return result
        tensor = convert_to_tensor(input)
        if optimize and tensor.shape.is_fully_defined():
            return constant(tensor.shape.num_elements(), kind, name=scope)
        result = Size(tensor, out_type=kind, name=scope)
        return result


def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of dimensions of a tensor or SparseTensor."""
    return rank_of(input, name)


def rank_of(input: Any, name: str | None, optimize: bool = True) -> Tensor:
    """`rank`; with `optimize`, a rank that is known becomes a constant."""
    with name_scope(name, "Rank", [input]) as scope:
        if isinstance(input, SparseTensor):
            result: Tensor = Size(input.dense_shape, name=scope)
            return result
        tensor = convert_to_tensor(input)
        if optimize and tensor.shape.ndims is not None:
            return constant(tensor.shape.ndims, dtypes.int32, name=scope)
        result = Rank(tensor, name=scope)
        return result


# -- Another shape, the same values ------------------------------------------------------


def _reshaped(c: ShapeContext) -> TensorShape:
    target = c.value_as_shape(1)
    count = c.shape(0).num_elements()
    if target.sizes is None or count is None:
        return target
    open_places = [i for i, s in enumerate(target.sizes) if s is None]
    known = math.prod(s for s in target.sizes if s is not None)
    if not open_places:
        if known != count:
            raise ValueError(
                f"Cannot reshape a tensor with {count} elements to shape "
                f"{shape_text(target.sizes)} ({known} elements)"
            )
        return target
    if len(open_places) > 1 or known == 0:
        return target
    if count % known:
        raise ValueError(
            f"Dimension size must be evenly divisible by {known} but is {count}: cannot reshape "
            f"to {shape_text(target.sizes)}"
        )
    return TensorShape([count // known if s is None else s for s in target.sizes])


def _reshape_target(count: int, target: Any) -> list[int]:
    """The sizes that `target` asks for, with -1 worked out."""
    sizes = [int(s) for s in np.ravel(target)]
    unknown = [i for i, s in enumerate(sizes) if s == -1]
    if len(unknown) > 1:
        raise ValueError(f"Only one input size may be -1, not both {unknown[0]} and {unknown[1]}")
    for i, s in enumerate(sizes):
        if s < -1:
            raise ValueError(f"Size {i} must be non-negative, not {s}")
    known = math.prod(s for s in sizes if s != -1)
    if unknown:
        if known == 0:
            if count:
                raise ValueError(
                    "reshape cannot infer the missing input size for an empty tensor unless all "
                    "specified input sizes are non-zero"
                )
            sizes[unknown[0]] = 0
        elif count % known:
            raise ValueError(
                f"Input to reshape is a tensor with {count} values, but the requested shape "
                f"requires a multiple of {known}"
            )
        else:
            sizes[unknown[0]] = count // known
    elif known != count:
        raise ValueError(
            f"Input to reshape is a tensor with {count} values, but the requested shape has {known}"
        )
    return sizes


@op(
    "Reshape(tensor: T, shape: Tshape) -> output: T where Tshape: index = int32",
    shape=_reshaped,
    static=("shape",),
)
def Reshape(tensor: Any, shape: Any, *, xp: Any) -> Any:
    """The elements of a tensor in another shape."""
    return tensor.reshape(_reshape_target(tensor.size, shape))


@Reshape.on_host
def _(node: Any, known: Any) -> Any:
    def reshape(tensor: Any, shape: Any) -> Any:
        sizes = shape.tolist() if shape.ndim == 1 else shape.ravel().tolist()
        if min(sizes, default=0) < (0 if not tensor.size else -1):
            sizes = _reshape_target(tensor.size, shape)
        return tensor.reshape(sizes)

    return reshape


@Reshape.gradient
def _(op: Operation, grad: Any) -> Any:
    return [reshape(convert_to_tensor(grad), _shape(op.inputs[0])), None]


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The elements of `tensor` in another shape.

    Args:
      tensor: The tensor.
      shape: The new sizes; one of them may be -1, and is then worked out.
      name: Name of the op.
    """
    result: Tensor = Reshape(tensor, shape, name=name)
    return result


def _squeezed(c: ShapeContext) -> TensorShape:
    sizes = c.shape(0).sizes
    if sizes is None:
        return unknown_shape()
    wanted = c.attr("squeeze_dims")
    if not wanted:
        if None in sizes:
            return unknown_shape()
        return TensorShape([s for s in sizes if s != 1])
    axes = _squeeze_axes(sizes, wanted)
    return TensorShape([s for i, s in enumerate(sizes) if i not in axes])


def _squeeze_axes(sizes: Sequence[int | None], wanted: Sequence[int]) -> set[int]:
    axes = set()
    for axis in wanted:
        place = normal_axis(
            axis,
            len(sizes),
            f"Tried to squeeze dim index {axis} for tensor with {len(sizes)} dimensions.",
        )
        if sizes[place] not in (1, None):
            raise ValueError(
                f"Can not squeeze dim[{place}], expected a dimension of 1, got {sizes[place]}"
            )
        axes.add(place)
    return axes


@op(
    "Squeeze(input: T) -> output: T where squeeze_dims: list(int) >= 0 = []",
    shape=_squeezed,
)
def Squeeze(input: Any, *, squeeze_dims: list[int], xp: Any) -> Any:
    """The input without dimensions of size 1."""
    axes = _squeeze_axes(input.shape, squeeze_dims)
    drop_all = not squeeze_dims
    return input.reshape(
        [s for i, s in enumerate(input.shape) if not (s == 1 if drop_all else i in axes)]
    )


@Squeeze.gradient
def _(op: Operation, grad: Any) -> Any:
    return reshape(grad, _shape(op.inputs[0]))


def squeeze(
    input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None
) -> Tensor:
    """`input` without the dimensions of size 1, or without those given.

    Args:
      input: The tensor.
      axis: A dimension or a list of them; all of size 1 when None.
      name: Name of the op.
      squeeze_dims: The old name of `axis`.

    Raises:
      ValueError: Both `axis` and `squeeze_dims` are given, or a size is known not to be 1.
    """
    if squeeze_dims is not None:
        if axis is not None:
            raise ValueError("Cannot specify both 'axis' and 'squeeze_dims'")
        axis = squeeze_dims
    dims = None if axis is None else [int(a) for a in np.ravel(axis)]
    result: Tensor = Squeeze(input, squeeze_dims=dims, name=name)
    return result


def _expanded(c: ShapeContext) -> TensorShape:
    sizes, value = c.shape(0).sizes, c.value(1)
    if value is not None and value.size != 1:
        raise ValueError("'dim' input must be a tensor with a single value")
    if sizes is None:
        return unknown_shape()
    if value is None:
        return unknown_shape(len(sizes) + 1)
    places, wanted = len(sizes) + 1, int(value.item())
    axis = normal_axis(
        wanted, places, f"dim {wanted} not in the interval [{-places}, {places - 1}]"
    )
    return TensorShape([*sizes[:axis], 1, *sizes[axis:]])


@op(
    "ExpandDims(input: T, dim: Tdim) -> output: T where Tdim: index = int32",
    shape=_expanded,
    static=("dim",),
)
def ExpandDims(input: Any, dim: Any, *, xp: Any) -> Any:
    """The input with a further dimension of size 1."""
    if dim.size != 1:
        raise ValueError("'dim' must be a tensor with a single value")
    axis = normal_axis(
        int(dim.item()),
        input.ndim + 1,
        f"Tried to expand dim index {dim.item()} for tensor with {input.ndim} dimensions.",
    )
    return input.reshape((*input.shape[:axis], 1, *input.shape[axis:]))


@ExpandDims.on_host
def _(node: Any, known: Any) -> Any:
    if known[1] is None or known[1].size != 1:
        return None
    axis = int(known[1].item())
    # Counted from the end there are as many dimensions behind it as it says.
    index = (slice(None),) * axis + (None,) if axis >= 0 else (..., None, *[slice(None)] * ~axis)
    least = axis if axis >= 0 else ~axis

    def expand(input: Any, dim: Any) -> Any:
        if input.ndim < least:
            raise ValueError("There is no such dimension")
        return input[index]

    return expand


@ExpandDims.gradient
def _(op: Operation, grad: Any) -> Any:
    return [reshape(grad, _shape(op.inputs[0])), None]


@dispatched
def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """`input` with a dimension of size 1 put in at `axis` (`dim` is the old name).

    Raises:
      ValueError: Neither or both of `axis` and `dim` are given.
    """
    if dim is not None:
        if axis is not None:
            raise ValueError("Cannot specify both 'axis' and 'dim'")
        axis = dim
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    result: Tensor = ExpandDims(input, axis, name=name)
    return result


# -- Broadcasting ------------------------------------------------------------------------


def _common_shape(a: Any, b: Any) -> list[int]:
    try:
        return [int(s) for s in np.broadcast_shapes(tuple(a), tuple(b))]
    except ValueError:
        raise ValueError(f"Incompatible shapes: {shape_text(a)} vs. {shape_text(b)}") from None


def _longer_of_two(c: ShapeContext) -> TensorShape:
    lengths = [s[0] if (s := t.shape.with_rank(1).sizes) is not None else None for t in c.inputs]
    if None in lengths:
        return TensorShape([None])
    return TensorShape([max(n for n in lengths if n is not None)])


@op(
    "BroadcastArgs(s0: T, s1: T) -> r0: T where T: index = int32",
    shape=_longer_of_two,
    static=("s0", "s1"),
    gradient=NO_GRADIENT,
)
def BroadcastArgs(s0: Any, s1: Any, *, xp: Any) -> Any:
    """The shape that two shapes broadcast to."""
    return np.array(_common_shape(s0, s1), s0.dtype)


@op(
    "BroadcastGradientArgs(s0: T, s1: T) -> (r0: T, r1: T) where T: index = int32",
    shape=vector_of_unknown,
    static=("s0", "s1"),
    gradient=NO_GRADIENT,
)
def BroadcastGradientArgs(s0: Any, s1: Any, *, xp: Any) -> Any:
    """The axes over which each operand's gradient is summed after broadcasting."""
    axes = repeated_axes_of(s0, s1)
    return np.array(axes[0], s0.dtype), np.array(axes[1], s0.dtype)


def repeated_axes_of(x: Any, y: Any) -> tuple[list[int], list[int]]:
    """The axes along which each of two operands of these shapes is repeated, or has size 1."""
    x, y = [int(d) for d in x], [int(d) for d in y]
    axes: tuple[list[int], list[int]] = ([], [])
    if x == y:
        return axes
    whole = len(_common_shape(x, y))
    padded = [[1] * (whole - len(s)) + s for s in (x, y)]
    for i, (m, n) in enumerate(zip(*padded, strict=True)):
        if m == 1:
            axes[0].append(i)
        if n == 1:
            axes[1].append(i)
    return axes


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape, as a tensor, that two shapes (tensors) broadcast to."""
    result: Tensor = BroadcastArgs(shape_x, shape_y)
    return result


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The static shape that two static shapes broadcast to.

    Raises:
      ValueError: They cannot.
    """
    try:
        return broadcast_shapes(as_shape(shape_x), as_shape(shape_y))
    except ValueError:
        raise ValueError(f"Incompatible shapes for broadcasting: {shape_x} and {shape_y}") from None


def _broadcast_target(c: ShapeContext) -> TensorShape:
    source, target = c.shape(0), c.value_as_shape(1)
    if target.sizes is None or source.sizes is None:
        return target
    if len(source.sizes) > len(target.sizes):
        raise ValueError(
            f"Rank of input ({len(source.sizes)}) must be no greater than rank of output shape "
            f"({len(target.sizes)})"
        )
    result = list(target.sizes)
    for i in range(1, len(source.sizes) + 1):
        have, want = source.sizes[-i], target.sizes[-i]
        if want is None and have not in (None, 1):
            result[-i] = have
        elif None not in (have, want) and have not in (1, want):
            raise ValueError(
                f"Incompatible shapes: {shape_text(source.sizes)} vs. {shape_text(target.sizes)}"
            )
    return TensorShape(result)


@op(
    "BroadcastTo(input: T, shape: Tidx) -> output: T where Tidx: index = int32",
    shape=_broadcast_target,
    static=("shape",),
)
def BroadcastTo(input: Any, shape: Any, *, xp: Any) -> Any:
    """The input repeated to fill a shape, by NumPy's rules."""
    sizes = [int(s) for s in shape]
    if input.ndim > len(sizes):
        raise ValueError(
            f"Rank of input ({input.ndim}) must be no greater than rank of output shape "
            f"({len(sizes)})."
        )
    # -1 keeps the size of the input.
    for i in range(1, input.ndim + 1):
        if sizes[-i] == -1:
            sizes[-i] = input.shape[-i]
    if _common_shape(input.shape, sizes) != sizes:
        raise ValueError(f"Incompatible shapes: {shape_text(input.shape)} vs. {shape_text(sizes)}")
    return xp.broadcast_to(input, sizes)


@BroadcastTo.on_host
def _(node: Any, known: Any) -> Any:
    whole = functools.partial(node.definition.kernel, xp=np)

    def broadcast(input: Any, shape: Any) -> Any:
        sizes = shape.tolist()
        if -1 in sizes or math.prod(sizes) > SMALL_COPY or input.ndim > len(sizes):
            return whole(input, shape)
        result = np.empty(sizes, input.dtype)
        result[...] = input
        return result

    return broadcast


@BroadcastTo.gradient
def _(op: Operation, grad: Any) -> Any:
    target = op.inputs[1]
    source = shape(op.inputs[0], out_type=target.dtype)
    known = constant_value.constant_value(target)
    if known is not None:
        target = constant(known, target.dtype)
    axes = BroadcastGradientArgs(target, source)[1]
    return [reshape(reduction.reduce_sum(grad, axes, keepdims=True), source), None]


def sum_to(grad: Any, whole: Tensor, tensor: Tensor) -> Tensor:
    """`grad`, summed to the shape of `tensor`, which was broadcast to the shape of `whole`."""
    if tensor.shape.is_fully_defined() and tensor.shape == whole.shape:
        return convert_to_tensor(grad)
    target = shape(tensor)
    axes = BroadcastGradientArgs(target, shape(whole))[0]
    return reshape(reduction.reduce_sum(grad, axes, keepdims=True), target)


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """`input` repeated along dimensions of size 1, and new ones in front, to fill `shape`."""
    result: Tensor = BroadcastTo(input, shape, name=name)
    return result
