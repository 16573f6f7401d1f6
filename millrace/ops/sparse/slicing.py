"""Sparse tensors joined along a dimension, cut into parts, and rows left out of slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.slices import IndexedSlices, SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import gather as array_gather
from millrace.ops.array import join as array_join
from millrace.ops.array import sets as array_sets
from millrace.ops.array import shape as array_shape
from millrace.ops.math import reduction
from millrace.ops.sparse.sparse import as_sparse, ordered, unknown_sparse

__all__ = ["sparse_concat", "sparse_mask", "sparse_slice", "sparse_split"]


# -- Concatenation --------------------------------------------------------------------------------


def _concat_shape(c: ShapeContext) -> list[TensorShape]:
    count: int | None = 0
    rank = TensorShape([None])[0]
    for indices in c.shapes("indices"):
        shape = indices.with_rank(2)
        rank = rank.merge_with(shape[1])
        size = shape[0].value
        count = None if count is None or size is None else count + size
    return [TensorShape([count, rank]), TensorShape([count]), TensorShape([rank])]


@op(
    "SparseConcat(indices: N*int64, values: N*T, shapes: N*int64) -> "
    "(output_indices: int64, output_values: T, output_shape: int64) where concat_dim: int; "
    "N: int >= 2; T: type",
    shape=_concat_shape,
    gradient=NO_GRADIENT,
)
def SparseConcat(
    indices: list[Any],
    values: list[Any],
    shapes: list[Any],
    *,
    concat_dim: int,
    xp: Any,
    check: Any,
) -> Any:
    """Sparse tensors one after the other along a dimension."""
    rank = shapes[0].shape[0]
    for i, shape in enumerate(shapes):
        if shape.shape[0] != rank:
            raise ValueError(
                f"Ranks of all input tensors must match: expected {rank} but got "
                f"{shape.shape[0]} at position {i}"
            )
    if not -rank <= concat_dim < rank:
        raise ValueError(f"Concat dimension must be in range [{-rank}, {rank}), got {concat_dim}")
    axis = concat_dim % rank
    along = np.arange(rank) == axis

    def complaint(position: int) -> Any:
        def told(first: Any, found: Any) -> str:
            for k in range(rank):
                if k != axis and first[k] != found[k]:
                    return (
                        f"Input shapes must match: expected {first[k]} for dimension {k} but got "
                        f"{found[k]} at position {position}"
                    )
            return "Input shapes must match"

        return told

    offset = xp.zeros([], np.int64)
    parts = []
    for i, (part, shape) in enumerate(zip(indices, shapes, strict=True)):
        if i:
            check(xp.all((shape == shapes[0]) | along), complaint(i), shapes[0], shape)
        parts.append(part + xp.where(along, offset, 0))
        offset = offset + shape[axis]
    together = xp.concatenate(parts)
    order = ordered(together, xp)
    size = xp.where(along, offset, shapes[0])
    return together[order], xp.concatenate(values)[order], size


def sparse_concat(
    axis: int,
    sp_inputs: Any,
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """Sparse tensors one after the other along a dimension.

    Args:
      axis: The dimension.
      sp_inputs: A list of SparseTensors.
      name: The operation's name.
      expand_nonconcat_dim: Whether the other dimensions may differ: the largest counts.
      concat_dim: The old name of `axis`.
      expand_nonconcat_dims: The newer name of `expand_nonconcat_dim`.
    """
    if expand_nonconcat_dims is not None:
        expand_nonconcat_dim = expand_nonconcat_dims
    axis = axis if concat_dim is None else concat_dim
    if not isinstance(sp_inputs, list | tuple):
        raise TypeError("Inputs must be a list or tuple.")
    inputs = [as_sparse(item) for item in sp_inputs]
    if len(inputs) == 1:
        return inputs[0]
    shapes: list[Any] = [item.dense_shape for item in inputs]
    statics = [item.get_shape() for item in inputs]
    if expand_nonconcat_dim:
        rows = [array_shape.reshape(shape, [1, -1]) for shape in shapes]
        largest: Any = reduction.reduce_max(array_join.concat(rows, 0), 0)
        shapes = [
            array_join.concat(
                [
                    largest[:axis],
                    shape[-1:] if axis == -1 else shape[axis : axis + 1],
                    [] if axis == -1 else largest[axis + 1 :],
                ],
                0,
            )
            for shape in shapes
        ]
    indices, values, size = SparseConcat(
        [item.indices for item in inputs],
        [item.values for item in inputs],
        shapes,
        concat_dim=axis,
        name=name,
    )
    if any(shape.ndims is None for shape in statics):
        return SparseTensor(indices, values, size)
    known = _concatenated([shape.as_list() for shape in statics], axis, expand_nonconcat_dim)
    if all(shape.is_fully_defined() for shape in statics):
        return SparseTensor(indices, values, convert_to_tensor(known, dtypes.int64))
    result = SparseTensor(indices, values, size)
    result.set_shape(known)
    return result


def _concatenated(shapes: list[list[int | None]], axis: int, expand: bool) -> list[int | None]:
    def together(sizes: list[int | None], combine: Any) -> int | None:
        return None if None in sizes else combine(sizes)

    if expand:
        result = [together(list(sizes), max) for sizes in zip(*shapes, strict=True)]
    else:
        result = list(shapes[0])
    result[axis] = together([shape[axis] for shape in shapes], sum)
    return result


# -- Slices and splits ----------------------------------------------------------------------------


@op(
    "SparseSlice(indices: int64, values: T, shape: int64, start: int64, size: int64) -> "
    "(output_indices: int64, output_values: T, output_shape: int64) where T: type",
    shape=lambda c: unknown_sparse(c.shape("indices").with_rank(2)[1].value),
    host=True,
)
def SparseSlice(indices: Any, values: Any, shape: Any, start: Any, size: Any) -> Any:
    """The entries of a part of a sparse tensor."""
    rank = len(shape)
    for part, label in ((start, "start"), (size, "size")):
        if len(part) != rank:
            raise ValueError(
                f"Expected {label} to be a vector of length {rank} but got length {len(part)}"
            )
    taken = np.maximum(np.minimum(size, shape - start), 0)
    inside = ((indices >= start) & (indices < start + taken)).all(axis=1)
    return indices[inside] - start, values[inside], taken


@op(
    "SparseSliceGrad(backprop_val_grad: T, input_indices: int64, input_start: int64, "
    "output_indices: int64) -> val_grad: T where T: number",
    shape=lambda c: TensorShape([c.shape("input_indices").with_rank(2)[0]]),
    gradient=NO_GRADIENT,
    host=True,
)
def SparseSliceGrad(
    backprop_val_grad: Any, input_indices: Any, input_start: Any, output_indices: Any
) -> Any:
    """Gradients at the entries that were taken, zero at the others."""
    return at_positions(input_indices - input_start, output_indices, backprop_val_grad)


def at_positions(wanted: Any, present: Any, values: Any) -> Any:
    """The value at each wanted index, zero where it is not among those present."""
    result = np.zeros(len(wanted), values.dtype)
    if not len(present) or not len(wanted):
        return result
    least = np.minimum(wanted.min(axis=0), present.min(axis=0))
    most = np.maximum(wanted.max(axis=0), present.max(axis=0)) - least + 1
    here = np.ravel_multi_index(tuple((present - least).T), tuple(most))
    there = np.ravel_multi_index(tuple((wanted - least).T), tuple(most))
    order = np.argsort(here, kind="stable")
    place = np.minimum(np.searchsorted(here[order], there), len(here) - 1)
    found = here[order][place] == there
    result[found] = values[order[place[found]]]
    return result


@SparseSlice.gradient
def _(op: Operation, indices_grad: Any, values_grad: Tensor, shape_grad: Any) -> Any:
    grad = SparseSliceGrad(values_grad, op.inputs[0], op.inputs[3], op.outputs[0])
    grad.set_shape(op.inputs[1].shape)
    return None, grad, None, None, None


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """The part of a SparseTensor that begins at `start` and has at most `size`."""
    sparse = as_sparse(sp_input)
    begin = convert_to_tensor(start, dtypes.int64)
    extent = convert_to_tensor(size, dtypes.int64)
    with name_scope(name, "SparseSlice", [sparse.values]) as scope:
        parts = SparseSlice(
            sparse.indices, sparse.values, sparse.dense_shape, begin, extent, name=scope
        )
        return SparseTensor(*parts)


def _split_shapes(c: ShapeContext) -> list[TensorShape]:
    rank = c.shape("indices").with_rank(2)[1].value
    count = c.attr("num_split")
    indices, values, shape = unknown_sparse(rank)
    return [indices] * count + [values] * count + [shape] * count


@op(
    "SparseSplit(split_dim: int64, indices: int64, values: T, shape: int64) -> "
    "(output_indices: num_split*int64, output_values: num_split*T, "
    "output_shape: num_split*int64) where num_split: int >= 1; T: type",
    shape=_split_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def SparseSplit(split_dim: Any, indices: Any, values: Any, shape: Any, *, num_split: int) -> Any:
    """A sparse tensor cut along a dimension; the first parts are larger when it is uneven."""
    rank, axis = len(shape), int(split_dim)
    if not -rank <= axis < rank:
        raise ValueError(f"Input axis should be in range [{-rank}, {rank}), got {axis}")
    axis %= rank
    size = int(shape[axis])
    if not 1 <= num_split <= size:
        raise ValueError(
            "Input num_split should be between 1 and the splitting dimension size "
            f"({size}), got {num_split}"
        )
    sizes = [size // num_split + (i < size % num_split) for i in range(num_split)]
    starts = np.cumsum([0, *sizes])
    outputs: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    along = np.arange(rank) == axis
    for start, extent in zip(starts, sizes, strict=False):
        inside = (indices[:, axis] >= start) & (indices[:, axis] < start + extent)
        outputs[0].append(indices[inside] - along * start)
        outputs[1].append(values[inside])
        outputs[2].append(np.where(along, extent, shape))
    return outputs


class _KeywordRequired:
    """Stands where TensorFlow 0.x had another first argument."""

    def __repr__(self) -> str:
        return "KeywordRequired()"


def sparse_split(
    keyword_required: Any = _KeywordRequired(),  # noqa: B008 - a mark, never changed
    sp_input: Any = None,
    num_split: int | None = None,
    axis: Any = None,
    name: str | None = None,
    split_dim: Any = None,
) -> list[SparseTensor]:
    """A SparseTensor cut into `num_split` parts along a dimension; arguments by name only."""
    if not isinstance(keyword_required, _KeywordRequired):
        raise ValueError("Keyword arguments are required for this function.")
    axis = split_dim if axis is None else axis
    for value, label in ((sp_input, "sp_input"), (num_split, "num_split"), (axis, "axis")):
        if value is None:
            raise ValueError(f"{label} is required")
    sparse = as_sparse(sp_input)
    outputs = SparseSplit(
        axis, sparse.indices, sparse.values, sparse.dense_shape, num_split=num_split, name=name
    )
    return [SparseTensor(*parts) for parts in zip(*outputs, strict=True)]


def sparse_mask(a: IndexedSlices, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """The slices whose indices are not among `mask_indices`."""
    with name_scope(name, "sparse_mask", [a.values, mask_indices]) as scope:
        kept, places = array_sets.setdiff1d(a.indices, mask_indices)
        values = array_gather.gather(a.values, places, name=scope)
        return IndexedSlices(values, kept, a.dense_shape)
