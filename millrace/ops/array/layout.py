"""Ops that put the elements of a tensor in another order.

Kernels are dual: strings are rearranged on the host.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, merge_shapes, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.array.rules import normal_axis, require_rank, require_rank_at_least
from millrace.ops.math import arithmetic, numeric, reduction

__all__ = [
    "invert_permutation",
    "matrix_transpose",
    "repeat",
    "reverse",
    "reverse_sequence",
    "reverse_v2",
    "roll",
    "tile",
    "transpose",
]


def _transposed(c: ShapeContext) -> TensorShape:
    sizes, perm = c.shape(0).sizes, c.value(1)
    perm_sizes = c.shape(1).sizes
    rank = len(sizes) if sizes is not None else perm_sizes[0] if perm_sizes else None
    if perm_sizes is not None and len(perm_sizes) > 1:
        raise ValueError(f"Shape must be rank 1 but is rank {len(perm_sizes)}")
    if rank is None:
        return unknown_shape()
    if perm_sizes and perm_sizes[0] not in (None, rank):
        raise ValueError(
            f"Dimension must be {rank} but is {perm_sizes[0]}: a permutation of all dimensions"
        )
    if perm is None or sizes is None:
        return unknown_shape(rank)
    result: list[int | None] = []
    for p in perm:
        if not -rank <= p < rank:
            raise ValueError(f"perm dim {p} is out of range of input rank {rank}")
        result.append(sizes[int(p)])
    return TensorShape(result)


def _axes_of(perm: Any, rank: int) -> list[int]:
    if perm.size != rank:
        raise ValueError(
            f"transpose expects a vector of size {rank}. But input(1) is a vector of size "
            f"{perm.size}"
        )
    axes = []
    for p in perm.tolist():
        axes.append(normal_axis(p, rank, f"{p} is out of range [0 .. {rank})"))
    for i in range(rank):
        if i not in axes:
            raise ValueError(f"{i} is missing from {{{','.join(map(str, perm.tolist()))}}}.")
    return axes


@op(
    "Transpose(x: T, perm: Tperm) -> y: T where Tperm: index = int32",
    shape=_transposed,
    static=("perm",),
)
def Transpose(x: Any, perm: Any, *, xp: Any) -> Any:
    """The input with its dimensions in another order."""
    return x.transpose(_axes_of(perm, x.ndim))


@Transpose.gradient
def _(op: Operation, grad: Any) -> Any:
    return [transpose(grad, invert_permutation(op.inputs[1])), None]


@op(
    "ConjugateTranspose(x: T, perm: Tperm) -> y: T where Tperm: index = int32",
    shape=_transposed,
    static=("perm",),
)
def ConjugateTranspose(x: Any, perm: Any, *, xp: Any) -> Any:
    """As `Transpose`, and conjugated."""
    return xp.conj(x.transpose(_axes_of(perm, x.ndim)))


@ConjugateTranspose.gradient
def _(op: Operation, grad: Any) -> Any:
    return [transpose(grad, invert_permutation(op.inputs[1]), conjugate=True), None]


def transpose(
    a: Any, perm: Any = None, name: str | None = "transpose", conjugate: bool = False
) -> Tensor:
    """`a` with its dimensions in the order of `perm`, or in reverse order when it is None.

    Args:
      a: The tensor.
      perm: Dimension i of the result is dimension ``perm[i]`` of `a`.
      name: Name of the op.
      conjugate: Whether complex values are conjugated too.
    """
    with name_scope(name, "transpose", [a]) as scope:
        tensor = convert_to_tensor(a, name="a")
        build = ConjugateTranspose if conjugate and tensor.dtype.is_complex else Transpose
        if perm is None:
            dimensions = tensor.shape.ndims
            if dimensions is None:
                perm = numeric.Range(array_shape.Rank(tensor) - 1, -1, -1)
            else:
                perm = np.arange(dimensions - 1, -1, -1, dtype=np.int32)
        result: Tensor = build(tensor, perm, name=scope)
        return result


def matrix_transpose(
    a: Any, name: str | None = "matrix_transpose", conjugate: bool = False
) -> Tensor:
    """`a` with its last two dimensions swapped.

    Raises:
      ValueError: `a` is known to have fewer than two dimensions.
    """
    with name_scope(name, "matrix_transpose", [a]):
        tensor = convert_to_tensor(a, name="a")
        dimensions = tensor.shape.ndims
        if dimensions is None:
            count: Any = array_shape.rank(tensor)
            perm: Any = array_join.concat(
                [numeric.Range(0, count - 2, 1), [count - 1, count - 2]], 0
            )
        elif dimensions < 2:
            raise ValueError(
                f"Argument `a` should be a (batch) matrix with rank >= 2.  Received `a` = {tensor} "
                f"with shape: {tensor.shape}"
            )
        else:
            perm = [*range(dimensions - 2), dimensions - 1, dimensions - 2]
        return transpose(tensor, perm, conjugate=conjugate)


@op(
    "InvertPermutation(x: T) -> y: T where T: index = int32",
    shape=lambda c: c.shape(0).with_rank(1),
    gradient=NO_GRADIENT,
)
def InvertPermutation(x: Any, *, xp: Any, check: Any) -> Any:
    """The permutation that undoes `x`."""
    if x.ndim != 1:
        raise ValueError("invert_permutation expects a 1D vector.")
    count = x.shape[0]

    def complaint(values: np.ndarray) -> str:
        seen = set()
        for value in values.tolist():
            if not 0 <= value < count:
                return f"{value} is not between 0 and {count}"
            if value in seen:
                return f"{value} is duplicated in the input."
            seen.add(value)
        return "The input is not a permutation."

    order = xp.argsort(x)
    check(x[order] == xp.arange(count, dtype=x.dtype), complaint, x)
    return order


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """The permutation that undoes the permutation `x`: ``y[x[i]] = i``."""
    result: Tensor = InvertPermutation(x, name=name)
    return result


# -- Reversal ----------------------------------------------------------------------------

_REVERSIBLE = (
    "{uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, bfloat16, float16, "
    "float32, float64, complex64, complex128, string}"
)


def _reverse_axes(axes: Any, rank: int) -> list[int]:
    found: list[int] = []
    for i, axis in enumerate(axes.tolist()):
        place = normal_axis(
            axis, rank, f"'axis'[{i}] = {axis} is out of valid range [0, {rank - 1}]"
        )
        if place in found:
            raise ValueError(f"axis {place} specified more than once.")
        found.append(place)
    return found


def _reversed_shape(c: ShapeContext) -> TensorShape:
    axes, rank = c.value(1), c.shape(0).ndims
    if axes is not None and rank is not None:
        _reverse_axes(axes, rank)
    return c.shape(0)


@op(
    f"ReverseV2(tensor: T, axis: Tidx) -> output: T where Tidx: index = int32; T: {_REVERSIBLE}",
    shape=_reversed_shape,
    static=("axis",),
)
def ReverseV2(tensor: Any, axis: Any, *, xp: Any) -> Any:
    """The tensor backwards along some axes."""
    axes = _reverse_axes(axis, tensor.ndim)
    return xp.flip(tensor, axes) if axes else tensor


@ReverseV2.gradient
def _(op: Operation, grad: Any) -> Any:
    return [reverse(grad, op.inputs[1]), None]


@op(
    f"Reverse(tensor: T, dims: bool) -> output: T where T: {_REVERSIBLE}",
    shape=unchanged,
    static=("dims",),
)
def Reverse(tensor: Any, dims: Any, *, xp: Any) -> Any:
    """`ReverseV2` of old graphs: a bool for each axis."""
    axes = np.flatnonzero(dims).tolist()
    return xp.flip(tensor, axes) if axes else tensor


@Reverse.gradient
def _(op: Operation, grad: Any) -> Any:
    return [Reverse(grad, op.inputs[1]), None]


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """`tensor` backwards along the axes in the list `axis`."""
    result: Tensor = ReverseV2(tensor, axis, name=name)
    return result


reverse_v2 = reverse


def _sequences_shape(c: ShapeContext) -> TensorShape:
    shape, lengths = c.shape(0), c.shape(1)
    require_rank(lengths, 1)
    if shape.sizes is None:
        return shape
    batch, sequence = c.attr("batch_dim"), c.attr("seq_dim")
    for name, place in (("batch_dim", batch), ("seq_dim", sequence)):
        if place >= len(shape.sizes):
            raise ValueError(f"{name} must be < input rank: {place} vs. {len(shape.sizes)}")
    if lengths.sizes is None:
        return shape
    sizes = list(shape.sizes)
    if None not in (sizes[batch], lengths.sizes[0]) and sizes[batch] != lengths.sizes[0]:
        raise ValueError(f"Dimensions must be equal, but are {sizes[batch]} and {lengths.sizes[0]}")
    sizes[batch] = sizes[batch] if sizes[batch] is not None else lengths.sizes[0]
    return TensorShape(sizes)


@op(
    "ReverseSequence(input: T, seq_lengths: Tlen) -> output: T "
    "where seq_dim: int; batch_dim: int = 0; Tlen: index = int64",
    shape=_sequences_shape,
)
def ReverseSequence(
    input: Any, seq_lengths: Any, *, seq_dim: int, batch_dim: int, xp: Any, check: Any
) -> Any:
    """Each sequence of a batch backwards, up to its own length."""
    if seq_dim == batch_dim:
        raise ValueError(f"batch_dim == seq_dim == {seq_dim}")
    for name, place in (("seq_dim", seq_dim), ("batch_dim", batch_dim)):
        if place >= input.ndim:
            raise ValueError(f"{name} must be < input rank ( {place} vs. {input.ndim})")
    count, size = input.shape[batch_dim], input.shape[seq_dim]
    if seq_lengths.shape != (count,):
        raise ValueError(
            f"Length of seq_lengths != input.dims({batch_dim}), ({seq_lengths.size} vs. {count})"
        )

    def complaint(lengths: Any) -> str:
        bad = int(np.argmax((lengths < 0) | (lengths > size)))
        relation = "< 0" if lengths[bad] < 0 else f"> input.dims({seq_dim})"
        return f"seq_lens({bad}) {relation}"

    check((seq_lengths >= 0) & (seq_lengths <= size), complaint, seq_lengths)
    steps = xp.arange(size, dtype=seq_lengths.dtype)[None, :]
    lengths = seq_lengths[:, None]
    order = xp.where(steps < lengths, lengths - 1 - steps, steps)
    # From [batch, sequence] to the places of these two among the input's dimensions.
    if batch_dim > seq_dim:
        order = order.T
    places = [1] * input.ndim
    places[batch_dim], places[seq_dim] = count, size
    return xp.take_along_axis(input, order.reshape(places), seq_dim)


@ReverseSequence.on_host
def _(node: Any, known: Any) -> Any:
    along, across = node.attrs["seq_dim"], node.attrs["batch_dim"]
    if {along, across} != {0, 1}:
        return None

    def reverse(x: Any, lengths: Any) -> Any:
        count, size = x.shape[across], x.shape[along]
        if lengths.shape != (count,) or (count and not 0 <= lengths.min() <= lengths.max() <= size):
            raise ValueError("ReverseSequence: lengths that do not fit")
        steps = np.arange(size)
        turned = lengths[:, None] - 1 - steps
        order = np.where(turned < 0, steps, turned)
        rows = np.arange(count)
        # Whole rows are copied, not element by element.
        return x[rows[:, None], order] if across == 0 else x[order.T, rows]

    return reverse


@ReverseSequence.gradient
def _(op: Operation, grad: Any) -> Any:
    return [
        ReverseSequence(
            grad,
            op.inputs[1],
            seq_dim=op.attrs["seq_dim"],
            batch_dim=op.attrs["batch_dim"],
        ),
        None,
    ]


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """Each sequence of a batch backwards, up to its own length.

    Args:
      input: The batch.
      seq_lengths: How much of each sequence is turned around.
      seq_axis: The axis along which a sequence runs.
      batch_axis: The axis that tells the sequences apart; 0 when None.
      name: Name of the op.
      seq_dim: The old name of `seq_axis`.
      batch_dim: The old name of `batch_axis`.

    Raises:
      ValueError: An old and a new name are both given.
    """
    if seq_dim is not None:
        if seq_axis is not None:
            raise ValueError("Cannot specify both 'seq_axis' and 'seq_dim'")
        seq_axis = seq_dim
    if batch_dim is not None:
        if batch_axis is not None:
            raise ValueError("Cannot specify both 'batch_axis' and 'batch_dim'")
        batch_axis = batch_dim
    result: Tensor = ReverseSequence(
        input, seq_lengths, seq_dim=seq_axis, batch_dim=batch_axis or 0, name=name
    )
    return result


# -- Repetition and rotation -------------------------------------------------------------


def _tiled_shape(c: ShapeContext) -> TensorShape:
    shape, multiples = c.shape(0), c.value_as_shape(1)
    if None not in (shape.ndims, multiples.ndims) and shape.ndims != multiples.ndims:
        raise ValueError(f"Shape must be rank {multiples.ndims} but is rank {shape.ndims}")
    rank = shape.ndims if shape.ndims is not None else multiples.ndims
    if rank is None:
        return unknown_shape()
    sizes = unknown_shape(rank).merge_with(shape).as_list()
    counts = unknown_shape(rank).merge_with(multiples).as_list()
    return TensorShape([_product(s, n) for s, n in zip(sizes, counts, strict=True)])


def _product(size: int | None, times: int | None) -> int | None:
    if size == 0 or times == 0:
        return 0
    return None if size is None or times is None else size * times


@op(
    "Tile(input: T, multiples: Tmultiples) -> output: T where Tmultiples: index = int32",
    shape=_tiled_shape,
    static=("multiples",),
)
def Tile(input: Any, multiples: Any, *, xp: Any) -> Any:
    """The input over and over along each axis."""
    if multiples.shape != (input.ndim,):
        raise ValueError(
            f"Expected multiples argument to be a vector of length {input.ndim} but got length "
            f"{multiples.size}"
        )
    for i, times in enumerate(multiples.tolist()):
        if times < 0:
            raise ValueError(f"Expected multiples[{i}] >= 0, but got {times}")
    return xp.tile(input, multiples.tolist()) if input.ndim else input


@Tile.on_host
def _(node: Any, known: Any) -> Any:
    whole = functools.partial(Tile.kernel, xp=np)

    def tiled(input: Any, multiples: Any) -> Any:
        times = multiples.tolist()
        if multiples.ndim != 1 or len(times) != input.ndim or min(times, default=0) < 1:
            return whole(input, multiples)
        for axis, count in enumerate(times):
            if count > 1:
                if input.shape[axis] == 1:
                    shape = list(input.shape)
                    shape[axis] = count
                    input = np.broadcast_to(input, shape)
                else:
                    input = np.concatenate([input] * count, axis)
        return np.ascontiguousarray(input)

    return tiled


@Tile.gradient
def _(op: Operation, grad: Any) -> Any:
    source, multiples = op.inputs
    shape = array_shape.shape(source, out_type=multiples.dtype.base_dtype)
    # [times, size] of each axis in turn: the copies are then an axis of their own.
    split = array_shape.reshape(transpose(array_join.stack([multiples, shape])), [-1])
    axes = numeric.range(0, array_shape.size(split), 2)
    result = reduction.reduce_sum(array_shape.reshape(convert_to_tensor(grad), split), axes)
    result.set_shape(source.shape)
    return [result, None]


@op(
    "TileGrad(input: T, multiples: int32) -> output: T",
    shape=lambda c: unknown_shape(c.shape(0).ndims),
    static=("multiples",),
    gradient=NO_GRADIENT,
)
def TileGrad(input: Any, multiples: Any, *, xp: Any) -> Any:
    """The sum over the copies that `Tile` made; in graphs of the first releases."""
    split: list[int] = []
    for size, times in zip(input.shape, multiples.tolist(), strict=True):
        split += [times, size // times]
    return input.reshape(split).sum(tuple(range(0, 2 * input.ndim, 2)))


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """`input` repeated ``multiples[i]`` times along each axis i."""
    result: Tensor = Tile(input, multiples, name=name)
    return result


def _rolled_shape(c: ShapeContext) -> TensorShape:
    require_rank_at_least(c.shape(0), 1)
    merge_shapes(c.shape(1), c.shape(2))
    return c.shape(0)


@op(
    "Roll(input: T, shift: Tshift, axis: Taxis) -> output: T where Tshift: index; Taxis: index",
    shape=_rolled_shape,
    static=("axis",),
)
def Roll(input: Any, shift: Any, axis: Any, *, xp: Any) -> Any:
    """The input rotated along some axes."""
    result = input
    for amount, place in zip(shift.reshape(-1), axis.reshape(-1).tolist(), strict=True):
        along = normal_axis(place, input.ndim, f"axis {place} is out of range")
        result = xp.roll(result, amount, along)
    return result


@Roll.gradient
def _(op: Operation, grad: Any) -> Any:
    shift: Any = op.inputs[1]
    return [roll(grad, -shift, op.inputs[2]), None, None]


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """`input` rotated by `shift` along `axis`; lists of both for several axes."""
    result: Tensor = Roll(input, shift, axis, name=name)
    return result


def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Each element (or slice along `axis`) of `input` repeated.

    Args:
      input: The tensor.
      repeats: How often: one number, or one for each slice.
      axis: The axis; the flattened input when None.
      name: Name of the scope.
    """
    if axis is None:
        input, axis = array_shape.reshape(input, [-1]), 0
    with name_scope(name, "Repeat", [input, repeats]):
        data = convert_to_tensor(input, name="data")
        counts = cast.cast(convert_to_tensor(repeats, name="repeats"), dtypes.int32)
        rank = data.shape.ndims
        if rank is not None:
            axis = normal_axis(
                axis, rank, f"axis={axis} out of bounds: expected {-rank}<=axis<{rank}"
            )
        elif axis < 0:
            raise ValueError(f"axis={axis} may only be negative if ndims is statically known.")
        shape: Any = array_shape.shape(data)
        if counts.shape.num_elements() == 1:
            times: Any = array_shape.reshape(counts, [])
            copies = _copied(data, axis, times)
            result_shape = array_join.concat(
                [shape[:axis], [times * shape[axis]], shape[axis + 1 :]], 0
            )
            return array_shape.reshape(copies, result_shape)
        # As often as the most repeated slice, and then without what is too much.
        all_counts = array_shape.broadcast_to(counts, shape[: axis + 1]) if axis else counts
        most = arithmetic.maximum(0, reduction.reduce_max(counts))
        mask = array_select.sequence_mask(all_counts, most)
        result = array_select.boolean_mask(_copied(data, axis, most), mask)
        if axis:
            result = array_shape.reshape(
                result,
                array_join.concat(
                    [shape[:axis], [reduction.reduce_sum(counts)], shape[axis + 1 :]], 0
                ),
            )
        return result


def _copied(data: Tensor, axis: int, times: Any) -> Tensor:
    """`times` copies of each slice along `axis`, along a new axis behind it."""
    wide = array_shape.expand_dims(data, axis + 1)
    if wide.shape.ndims is not None:
        multiples: Any = [1] * wide.shape.ndims
        multiples[axis + 1] = times
    else:
        ones: Any = array_fill.ones([array_shape.rank(wide)], dtypes.int32)
        multiples = array_join.concat([ones[: axis + 1], [times], ones[axis + 2 :]], 0)
    return tile(wide, multiples)
