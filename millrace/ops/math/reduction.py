"""Reductions over axes: sums, means, products, extremes, and where the extremes are.

The axes are static inputs: they decide the shape of the result. A reduction over nothing
gives the neutral element (0, 1, the least or greatest number), a mean over nothing NaN.
Integers are added in their own type and wrap; integer means are rounded towards 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import Op, op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.shape_inference import reduction as reduced
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.math import arithmetic, comparison, complex_numbers, elementwise, numeric
from millrace.ops.math.broadcasting import shape_text

__all__ = [
    "arg_max", "arg_min", "argmax", "argmin", "count_nonzero", "reduce_all", "reduce_any",
    "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum",
]  # fmt: skip

_TYPES = "keep_dims: bool = false; T: number; Tidx: {int32, int64} = int32"
_ORDERED = (
    "keep_dims: bool = false; T: {float32, float64, int32, uint8, int16, int8, int64, bfloat16, "
    "uint16, float16, uint32, uint64, qint8, quint8, qint32, qint16, quint16}; "
    "Tidx: {int32, int64} = int32"
)


def _axes(input: Any, indices: np.ndarray) -> tuple[int, ...]:
    """The axes to reduce, as sorted positive numbers."""
    rank = input.ndim
    axes: set[int] = set()
    for axis in np.ravel(indices).tolist():
        if not -rank <= axis < rank:
            raise ValueError(
                f"Invalid reduction dimension ({axis} for input with {rank} dimension(s)"
            )
        if axis % rank in axes:
            raise ValueError(
                f"Invalid reduction arguments: Axes contains duplicate dimension: {axis % rank}"
            )
        axes.add(axis % rank)
    return tuple(sorted(axes))


def _count(input: Any, axes: tuple[int, ...]) -> int:
    """How many elements go into one element of the result."""
    return int(np.prod([input.shape[axis] for axis in axes], dtype=np.int64))


# -- Kernels -----------------------------------------------------------------------------


@op(
    f"Sum(input: T, reduction_indices: Tidx) -> output: T where {_TYPES}",
    shape=reduced,
    static=("reduction_indices",),
)
def Sum(input: Any, reduction_indices: Any, *, xp: Any, keep_dims: bool) -> Any:
    axes = _axes(input, reduction_indices)
    return xp.sum(input, axis=axes, keepdims=keep_dims, dtype=input.dtype)


@op(
    f"Mean(input: T, reduction_indices: Tidx) -> output: T where {_TYPES}",
    shape=reduced,
    static=("reduction_indices",),
)
def Mean(input: Any, reduction_indices: Any, *, xp: Any, keep_dims: bool) -> Any:
    axes = _axes(input, reduction_indices)
    count = _count(input, axes)
    if input.dtype.kind in "iu":
        wide: Any = np.uint64 if input.dtype.kind == "u" else np.int64
        total = xp.sum(input, axis=axes, keepdims=keep_dims, dtype=wide)
        magnitude = xp.abs(total) // xp.asarray(max(count, 1), wide)
        return (xp.sign(total) * magnitude).astype(input.dtype)
    # The sum of many half-precision numbers may not fit where their mean does.
    wide = np.float32 if input.dtype.itemsize == 2 else input.dtype
    total = xp.sum(input, axis=axes, keepdims=keep_dims, dtype=wide)
    return (total / xp.asarray(count, wide)).astype(input.dtype)


@op(
    f"Prod(input: T, reduction_indices: Tidx) -> output: T where {_TYPES}",
    shape=reduced,
    static=("reduction_indices",),
    gradient=JAX_GRADIENT,
)
def Prod(input: Any, reduction_indices: Any, *, xp: Any, keep_dims: bool) -> Any:
    axes = _axes(input, reduction_indices)
    return xp.prod(input, axis=axes, keepdims=keep_dims, dtype=input.dtype)


def _extreme(
    input: Any, indices: Any, keep_dims: bool, function: Callable[..., Any], neutral: Any, xp: Any
) -> Any:
    axes = _axes(input, indices)
    if _count(input, axes):
        return function(input, axis=axes, keepdims=keep_dims)
    shape = [
        1 if i in axes else size for i, size in enumerate(input.shape) if keep_dims or i not in axes
    ]
    return xp.full(shape, neutral, input.dtype)


@op(
    f"Max(input: T, reduction_indices: Tidx) -> output: T where {_ORDERED}",
    shape=reduced,
    static=("reduction_indices",),
)
def Max(input: Any, reduction_indices: Any, *, xp: Any, keep_dims: bool) -> Any:
    least = np.iinfo(input.dtype).min if input.dtype.kind in "iu" else -np.inf
    return _extreme(input, reduction_indices, keep_dims, xp.max, least, xp)


@op(
    f"Min(input: T, reduction_indices: Tidx) -> output: T where {_ORDERED}",
    shape=reduced,
    static=("reduction_indices",),
)
def Min(input: Any, reduction_indices: Any, *, xp: Any, keep_dims: bool) -> Any:
    greatest = np.iinfo(input.dtype).max if input.dtype.kind in "iu" else np.inf
    return _extreme(input, reduction_indices, keep_dims, xp.min, greatest, xp)


@op(
    "Any(input: bool, reduction_indices: Tidx) -> output: bool "
    "where keep_dims: bool = false; Tidx: {int32, int64} = int32",
    shape=reduced,
    static=("reduction_indices",),
    gradient=NO_GRADIENT,
)
def AnyOp(input: Any, reduction_indices: Any, *, xp: Any, keep_dims: bool) -> Any:
    return xp.any(input, axis=_axes(input, reduction_indices), keepdims=keep_dims)


@op(
    "All(input: bool, reduction_indices: Tidx) -> output: bool "
    "where keep_dims: bool = false; Tidx: {int32, int64} = int32",
    shape=reduced,
    static=("reduction_indices",),
    gradient=NO_GRADIENT,
)
def AllOp(input: Any, reduction_indices: Any, *, xp: Any, keep_dims: bool) -> Any:
    return xp.all(input, axis=_axes(input, reduction_indices), keepdims=keep_dims)


@op(
    f"EuclideanNorm(input: T, reduction_indices: Tidx) -> output: T where {_TYPES}",
    shape=reduced,
    static=("reduction_indices",),
)
def EuclideanNorm(input: Any, reduction_indices: Any, *, xp: Any, keep_dims: bool) -> Any:
    axes = _axes(input, reduction_indices)
    wide = input.astype(np.float64) if input.dtype.kind in "iu" else input
    squares = xp.real(wide * xp.conj(wide))
    return xp.sqrt(xp.sum(squares, axis=axes, keepdims=keep_dims)).astype(input.dtype)


# -- Kernels for NumPy alone -------------------------------------------------------------


def _with_known_axes(
    reduce: Callable[..., Any], accepts: Callable[[Any], Any] = lambda input: True
) -> Callable[[Any, Sequence[Any]], Callable[..., Any] | None]:
    """States a reduction along constant axes as a call of NumPy's inner function.

    Args:
      reduce: (array, axes, type, output, whether axes are kept) -> result.
      accepts: Tells arrays that it is right for; the kernel takes the others.
    """

    def rule(node: Any, known: Sequence[Any]) -> Callable[..., Any] | None:
        indices = known[1]
        if indices is None:
            return None
        keep_dims = node.attrs["keep_dims"]
        whole = functools.partial(node.definition.kernel, xp=np, keep_dims=keep_dims)
        by_rank: dict[int, tuple[int, ...]] = {}

        def reduced(input: Any, reduction_indices: Any) -> Any:
            if not accepts(input):
                return whole(input, reduction_indices)
            axes = by_rank.get(input.ndim)
            if axes is None:
                axes = by_rank[input.ndim] = _axes(input, indices)
            return reduce(input, axes, input.dtype, None, keep_dims)

        return reduced

    return rule


_add_along: Callable[..., Any] = np.add.reduce


def _mean_along(input: Any, axes: Any, dtype: Any, out: Any, keep_dims: bool) -> Any:
    total: Any = _add_along(input, axes, dtype, out, keep_dims)
    return total / dtype.type(input.size // total.size)


Sum.on_host(_with_known_axes(np.add.reduce))
Prod.on_host(_with_known_axes(np.multiply.reduce))
Mean.on_host(_with_known_axes(_mean_along, lambda x: x.size and x.dtype.char in "fd"))
Max.on_host(_with_known_axes(np.maximum.reduce, lambda x: x.size))
Min.on_host(_with_known_axes(np.minimum.reduce, lambda x: x.size))


# -- Gradients ---------------------------------------------------------------------------


def kept_shape(op: Operation) -> Any:
    """The shape that a reduction's result has with the reduced axes kept, as 1.

    A list where it is known but for one size (then -1, for Reshape), else a tensor.
    """
    x, axes = op.inputs
    sizes, value = x.shape.sizes, constant_value(axes)
    if sizes is not None and value is not None:
        gone = {int(axis) % len(sizes) for axis in np.ravel(value)}
        kept = [1 if i in gone else size for i, size in enumerate(sizes)]
        if None not in kept or (kept.count(None) == 1 and 0 not in kept):
            return [-1 if size is None else size for size in kept]
    return reduced_shape(array_shape.shape(x), axes)


def reduced_shape(input_shape: Any, axes: Any) -> Any:
    """`input_shape` with 1 at the positions `axes`; both are integer tensors."""
    rank = array_shape.size(input_shape)
    positions: Any = array_shape.reshape(cast.cast(axes, dtypes.int32), [-1])
    positions = arithmetic.FloorMod(positions + rank, rank)
    every = array_shape.expand_dims(numeric.range(rank), 1)
    is_reduced = AnyOp(comparison.equal(every, array_shape.expand_dims(positions, 0)), 1)
    return array_select.where_v2(is_reduced, array_fill.ones_like(input_shape), input_shape)


def _with_kept_axes(op: Operation, *tensors: Any) -> list[Any]:
    """Tensors in the shape of a reduction's result, reshaped to broadcast against its input."""
    if op.get_attr("keep_dims") or op.outputs[0].shape.ndims == 0:
        return list(tensors)
    shape = kept_shape(op)
    return [array_shape.reshape(tensor, shape) for tensor in tensors]


def _spread(op: Operation, grad: Any) -> Any:
    """A gradient of a reduction's result, repeated for every element that went into it."""
    (grad,) = _with_kept_axes(op, grad)
    x = op.inputs[0]
    return array_shape.broadcast_to(grad, _shape_of(x))


def _shape_of(x: Tensor) -> Any:
    return x.shape.as_list() if x.shape.is_fully_defined() else array_shape.shape(x)


@Sum.gradient
def _(op: Operation, grad: Any) -> Any:
    return _spread(op, grad), None


@Mean.gradient
def _(op: Operation, grad: Any) -> Any:
    x, result = op.inputs[0], op.outputs[0]
    kind = x.dtype.base_dtype
    if x.shape.is_fully_defined() and result.shape.is_fully_defined():
        sizes = [t.shape.num_elements() or 0 for t in (x, result)]
        count: Any = convert_to_tensor(sizes[0] // max(sizes[1], 1), kind)
    else:
        in_one = array_shape.size(x) // arithmetic.maximum(array_shape.size(result), 1)
        count = cast.cast(in_one, kind)
    return _spread(op, grad / count), None


@Max.gradient
@Min.gradient
def _(op: Operation, grad: Any) -> Any:
    x, axes = op.inputs
    value, grad = _with_kept_axes(op, op.outputs[0], grad)
    chosen = cast.cast(comparison.equal(value, x), grad.dtype)
    ties = Sum(chosen, axes, keep_dims=True)
    return chosen / ties * grad, None


@EuclideanNorm.gradient
def _(op: Operation, grad: Any) -> Any:
    norm, grad = _with_kept_axes(op, op.outputs[0], grad)
    return arithmetic.truediv(op.inputs[0], norm / grad), None


# -- Public functions --------------------------------------------------------------------


def either(name: str, value: Any, old_name: str, old_value: Any) -> Any:
    """The value of an argument that also has an old name.

    Raises:
      ValueError: Both were given.
    """
    if old_value is None:
        return value
    if value is not None:
        raise ValueError(f"Cannot specify both '{name}' and '{old_name}'.")
    return old_value


def all_axes(x: Tensor) -> Any:
    """Every axis of x: a constant where the rank is known."""
    if x.shape.ndims is not None:
        return convert_to_tensor(np.arange(x.shape.ndims, dtype=np.int32))
    return numeric.range(0, array_shape.rank(x))


def _reduce(kind: Op, input_tensor: Any, axis: Any, keepdims: Any, name: str | None) -> Tensor:
    x = convert_to_tensor(input_tensor)
    keep = False if keepdims is None else bool(keepdims)
    result: Tensor = kind(x, all_axes(x) if axis is None else axis, keep_dims=keep, name=name)
    if axis is None and not keep:
        result.set_shape([])
    return result


@dispatched
def reduce_sum(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The sum over axes.

    Args:
      input_tensor: The tensor.
      axis: One axis or a list of them; all when None.
      keepdims: Whether reduced axes stay, with size 1.
      name: The node's name.
      reduction_indices: The old name of `axis`.
      keep_dims: The old name of `keepdims`.
    """
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    return _reduce(Sum, input_tensor, axis, keepdims, name)


@dispatched
def reduce_mean(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The mean over axes, in the type of the input; see `reduce_sum` for the arguments."""
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    return _reduce(Mean, input_tensor, axis, keepdims, name)


@dispatched
def reduce_prod(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The product over axes; see `reduce_sum` for the arguments."""
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    return _reduce(Prod, input_tensor, axis, keepdims, name)


@dispatched
def reduce_max(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The greatest element over axes; see `reduce_sum` for the arguments."""
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    return _reduce(Max, input_tensor, axis, keepdims, name)


@dispatched
def reduce_min(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The least element over axes; see `reduce_sum` for the arguments."""
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    return _reduce(Min, input_tensor, axis, keepdims, name)


@dispatched
def reduce_any(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Whether one element is true; see `reduce_sum` for the arguments."""
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    return _reduce(AnyOp, input_tensor, axis, keepdims, name)


@dispatched
def reduce_all(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Whether all elements are true; see `reduce_sum` for the arguments."""
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    return _reduce(AllOp, input_tensor, axis, keepdims, name)


def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The root of the sum of squares over axes."""
    return _reduce(EuclideanNorm, input_tensor, axis, keepdims, name)


def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """log(sum(exp(x))) over axes, without overflow; see `reduce_sum` for the arguments."""
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    with name_scope(name, "ReduceLogSumExp", [input_tensor]) as scope:
        x = convert_to_tensor(input_tensor)
        greatest = reduce_max(x, axis, keepdims=True)
        finite = array_select.where_v2(elementwise.is_finite(greatest), greatest, 0)
        shift = array_identity.stop_gradient(finite)
        powers = elementwise.exp(arithmetic.subtract(x, shift))
        result = elementwise.log(reduce_sum(powers, axis, keepdims=keepdims))
        if not keepdims:
            shift = array_shape.reshape(shift, array_shape.shape(result))
        result = arithmetic.add(result, shift, name=scope)
        if axis is None and not keepdims:
            result.set_shape([])
        return result


def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The mean squared distance from the mean, over axes.

    Raises:
      TypeError: The input is of an integer type.
    """
    with name_scope(name if name else "reduce_variance"):
        x: Any = convert_to_tensor(input_tensor)
        distance = x - reduce_mean(x, axis, keepdims=True)
        if x.dtype.is_integer:
            raise TypeError(
                f"Input must be either real or complex. Received integer type {x.dtype!r}."
            )
        if x.dtype.is_complex:
            squares = complex_numbers.real(distance * complex_numbers.conj(distance))
        else:
            squares = elementwise.square(distance)
        return reduce_mean(squares, axis, keepdims=keepdims)


def reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The square root of `reduce_variance`."""
    with name_scope(name if name else "reduce_std"):
        x = convert_to_tensor(input_tensor)
        return elementwise.sqrt(reduce_variance(x, axis, keepdims=keepdims))


def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = dtypes.int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
    input: Any = None,
) -> Tensor:
    """How many elements are not zero (for strings: not empty), over axes.

    Args:
      input_tensor: The tensor.
      axis: One axis or a list of them; all when None.
      keepdims: Whether reduced axes stay, with size 1.
      dtype: The type of the result.
      name: The name scope.
      reduction_indices: The old name of `axis`.
      keep_dims: The old name of `keepdims`.
      input: The newer name of `input_tensor`.
    """
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    given = either("input_tensor", input_tensor, "input", input)
    if given is None:
        raise ValueError("count_nonzero needs a tensor: `input` is missing")
    with name_scope(name, "count_nonzero", [given]):
        x = convert_to_tensor(given, name="input")
        kind = x.dtype.base_dtype
        nothing: Any = "" if kind == dtypes.string else False if kind.is_bool else 0
        zero = convert_to_tensor(nothing, kind, name="zeros")
        is_set = cast.cast(comparison.not_equal(x, zero), dtypes.int64)
        return cast.cast(reduce_sum(is_set, axis, keepdims), dtype)


# -- Positions of extremes ---------------------------------------------------------------


def _position_shape(c: ShapeContext) -> TensorShape:
    axis_shape = c.shape(1)
    if axis_shape.ndims not in (None, 0):
        raise ValueError(f"Shape must be rank 0 but is rank {axis_shape.ndims}")
    sizes, axis = c.shape(0).sizes, c.value(1)
    if sizes is None:
        return unknown_shape()
    if len(sizes) <= 1:
        return TensorShape([])
    if axis is None:
        return unknown_shape(len(sizes) - 1)
    rank = len(sizes)
    if not -rank <= int(axis) < rank:
        raise ValueError(
            f"Dimension ({int(axis)}) must be in the range [{-rank}, {rank}), where {rank} is the "
            "number of dimensions in the input"
        )
    position = int(axis) % rank
    return TensorShape([*sizes[:position], *sizes[position + 1 :]])


def _position(input: Any, dimension: Any, function: Any, filler: Any, xp: Any) -> Any:
    rank, axis = input.ndim, int(dimension)
    if not -rank <= axis < rank:
        raise ValueError(f"Expected dimension in the range [{-rank}, {rank}), but got {axis}")
    if input.shape[axis] == 0:
        raise ValueError(
            f"Reduction axis {axis % rank} is empty in shape {shape_text(input.shape)}"
        )
    if input.dtype.kind not in "iub":
        # NaN is never the extreme: TensorFlow compares, and nothing compares with NaN.
        input = xp.where(xp.isnan(input), xp.asarray(filler, input.dtype), input)
    return function(input, axis=axis)


@op(
    "ArgMax(input: T, dimension: Tidx) -> output: output_type where T: {float32, float64, int32, "
    "uint8, int16, int8, int64, bfloat16, uint16, float16, uint32, uint64, qint8, quint8, "
    "qint32, qint16, quint16, bool}; Tidx: {int16, int32, int64} = int32; "
    "output_type: {int16, uint16, int32, int64} = int64",
    shape=_position_shape,
    static=("dimension",),
    gradient=NO_GRADIENT,
)
def ArgMax(input: Any, dimension: Any, *, xp: Any) -> Any:
    return _position(input, dimension, xp.argmax, -np.inf, xp)


@op(
    "ArgMin(input: T, dimension: Tidx) -> output: output_type where T: {float32, float64, int32, "
    "uint8, int16, int8, int64, bfloat16, uint16, float16, uint32, uint64, qint8, quint8, "
    "qint32, qint16, quint16, bool}; Tidx: {int32, int64} = int32; "
    "output_type: {int32, int64} = int64",
    shape=_position_shape,
    static=("dimension",),
    gradient=NO_GRADIENT,
)
def ArgMin(input: Any, dimension: Any, *, xp: Any) -> Any:
    return _position(input, dimension, xp.argmin, np.inf, xp)


def argmax(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Tensor:
    """The position of the greatest element along an axis; the first one of several.

    Args:
      input: The tensor.
      axis: The axis; 0 when None.
      name: The node's name.
      dimension: The old name of `axis`.
      output_type: int32 or int64 (int16, uint16).
    """
    axis = either("axis", axis, "dimension", dimension)
    return ArgMax(input, 0 if axis is None else axis, output_type=output_type, name=name)


def argmin(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Tensor:
    """The position of the least element along an axis; see `argmax` for the arguments."""
    axis = either("axis", axis, "dimension", dimension)
    return ArgMin(input, 0 if axis is None else axis, output_type=output_type, name=name)


def arg_max(
    input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """The old name of `argmax`."""
    return ArgMax(input, dimension, output_type=output_type, name=name)


def arg_min(
    input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """The old name of `argmin`."""
    return ArgMin(input, dimension, output_type=output_type, name=name)
