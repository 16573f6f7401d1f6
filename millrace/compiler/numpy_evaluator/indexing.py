"""Gathers and scatters by arrays of indices.

Both name windows of an operand. Whole rows along one axis, which is what nearly all programs
take, are `take` and a sum by row; all else becomes NumPy's indexing with an array per axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler import row_sums
from millrace.compiler.numpy_evaluator.rules import Call, rule
from millrace.compiler.xla import lax

_CLIP = lax.GatherScatterMode.CLIP
_FILL = lax.GatherScatterMode.FILL_OR_DROP


class _Windows:
    """Where windows lie, for operands, indices and windows of one shape.

    Attributes:
      batch: The shape of the indices, without the axis that lists coordinates.
      inner: The operand's axes that a window extends over, in their order.
    """

    def __init__(
        self,
        operand_shape: tuple[int, ...],
        indices_shape: tuple[int, ...],
        sizes: tuple[int, ...],
        dropped: tuple[int, ...],
        index_map: tuple[int, ...],
        operand_batching: tuple[int, ...],
        indices_batching: tuple[int, ...],
    ) -> None:
        self.operand_shape = operand_shape
        self.batch = indices_shape[:-1]
        self.sizes = sizes
        self.index_map = index_map
        self.inner = [
            d for d in range(len(sizes)) if d not in dropped and d not in operand_batching
        ]
        self._batching = dict(zip(operand_batching, indices_batching, strict=True))
        self.last = np.array([operand_shape[d] - sizes[d] for d in index_map], np.int64)
        #: The axis along which whole rows are taken, if that is all.
        self.row_axis: int | None = None
        if (
            len(index_map) == 1
            and tuple(dropped) == tuple(index_map)
            and not operand_batching
            and all(sizes[d] == operand_shape[d] for d in self.inner)
        ):
            self.row_axis = index_map[0]

    def inside(self, starts: Any) -> Any:
        """For each window whether it lies within the operand."""
        return np.all((starts >= 0) & (starts <= self.last), -1)

    def positions(self, starts: Any) -> tuple[Any, ...]:
        """An index array per axis of the operand, of shape batch and then inner axes."""
        extra = (1,) * len(self.inner)
        coordinate = {d: i for i, d in enumerate(self.index_map)}
        found = []
        for d, size in enumerate(self.sizes):
            if d in self._batching:
                axis = self._batching[d]
                shape = [1] * len(self.batch)
                shape[axis] = self.batch[axis]
                position = np.arange(self.batch[axis]).reshape((*shape, *extra))
            elif d in coordinate:
                position = starts[..., coordinate[d]].reshape((*self.batch, *extra))
            else:
                position = np.zeros((1,) * (len(self.batch) + len(extra)), np.int64)
            if d in self.inner and size != 1:
                shape = [1] * (len(self.batch) + len(extra))
                shape[len(self.batch) + self.inner.index(d)] = size
                position = position + np.arange(size).reshape(shape)
            found.append(position)
        return tuple(found)


def _starts(indices: Any) -> Any:
    return np.asarray(indices).astype(np.int64, copy=False)


@rule("gather")
def _gather(eqn: Any) -> Call:
    numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
    operand, indices = eqn.invars[0].aval, eqn.invars[1].aval
    windows = _Windows(
        operand.shape,
        indices.shape,
        tuple(eqn.params["slice_sizes"]),
        numbers.collapsed_slice_dims,
        numbers.start_index_map,
        numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
    )
    out = eqn.outvars[0].aval
    batch_axes = [i for i in range(len(out.shape)) if i not in numbers.offset_dims]
    back = np.argsort([*batch_axes, *numbers.offset_dims])
    fill = eqn.params["fill_value"]
    if fill is None:
        kind = np.dtype(out.dtype)
        fill = np.nan if kind.kind in "fcV" else True if kind.kind == "b" else None
        if fill is None:
            fill = np.iinfo(kind).min if kind.kind == "i" else np.iinfo(kind).max

    def gather(x: Any, where: Any) -> Any:
        starts = _starts(where)
        inside = windows.inside(starts)
        whole = bool(inside.all())
        if not whole:
            starts = np.clip(starts, 0, windows.last)
        if not x.size and out.size:
            return np.full(out.shape, fill, out.dtype)
        if windows.row_axis is not None:
            rows = np.take(x, starts[..., 0], windows.row_axis)
            # Where the batch now stands among the axes, it is to come first.
            axis, rank = windows.row_axis, len(windows.batch)
            found = np.moveaxis(rows, range(axis, axis + rank), range(rank)) if axis else rows
        else:
            found = np.broadcast_to(
                x[windows.positions(starts)],
                (*windows.batch, *(windows.sizes[d] for d in windows.inner)),
            )
        if not whole and mode == _FILL:
            shown = inside.reshape(*inside.shape, *(1,) * len(windows.inner))
            found = np.where(shown, found, np.asarray(fill, out.dtype))
        return np.transpose(found, back)

    return gather


def _scatter_rule(name: str, combine: Any) -> None:
    @rule(name)
    def make(eqn: Any) -> Call:
        numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
        operand, indices, updates = (v.aval for v in eqn.invars[:3])
        window_axes = iter(numbers.update_window_dims)
        dropped = numbers.inserted_window_dims
        sizes = tuple(
            1
            if d in dropped or d in numbers.operand_batching_dims
            else updates.shape[next(window_axes)]
            for d in range(len(operand.shape))
        )
        windows = _Windows(
            operand.shape,
            indices.shape,
            sizes,
            dropped,
            numbers.scatter_dims_to_operand_dims,
            numbers.operand_batching_dims,
            numbers.scatter_indices_batching_dims,
        )
        batch_axes = [i for i in range(len(updates.shape)) if i not in numbers.update_window_dims]
        order = (*batch_axes, *numbers.update_window_dims)

        def scatter(x: Any, where: Any, values: Any) -> Any:
            result = np.array(x)
            starts = _starts(where)
            values = np.transpose(values, order)
            inside = windows.inside(starts)
            if not inside.all():
                if mode == _CLIP:
                    starts = np.clip(starts, 0, windows.last)
                else:
                    _scatter_some(result, windows, starts, values, inside, combine)
                    return result
            if windows.row_axis == 0:
                rows = starts[..., 0].reshape(-1)
                put_rows(result, rows, values.reshape(len(rows), *result.shape[1:]), combine)
            else:
                _put(result, windows.positions(starts), values, combine)
            return result

        return scatter


def _scatter_some(
    result: Any, windows: _Windows, starts: Any, values: Any, inside: Any, combine: Any
) -> None:
    """Only the windows that lie inside: each coordinate array loses the others."""
    positions = windows.positions(np.clip(starts, 0, windows.last))
    rank = len(windows.batch)
    shape = (*windows.batch, *(windows.sizes[d] for d in windows.inner))
    chosen = tuple(np.broadcast_to(position, shape)[inside] for position in positions)
    _put(result, chosen, np.broadcast_to(values, shape)[inside] if rank else values[None], combine)


def _put(result: Any, positions: tuple[Any, ...], values: Any, combine: Any) -> None:
    if combine is None:
        result[positions] = values
    else:
        combine.at(result, positions, values)


def put_rows(result: Any, rows: Any, values: Any, combine: Any) -> None:
    """Combines `values` into the named rows of `result`, in place."""
    if combine is None:
        result[rows] = values
    elif combine is np.add and result.dtype in (np.float32, np.float64) and result.ndim > 1:
        width = int(np.prod(result.shape[1:], dtype=np.int64))
        distinct, sums = sum_by_row(rows, values.reshape(len(rows), width))
        result.reshape(len(result), width)[distinct] += sums
    else:
        combine.at(result, rows, values)


def sum_by_row(rows: Any, values: Any) -> tuple[Any, Any]:
    """The distinct rows, and for each the sum of its values (a matrix)."""
    distinct, inverse = np.unique(rows, return_inverse=True)
    if len(distinct) == len(rows):
        order = np.empty_like(inverse)
        order[inverse] = np.arange(len(rows))
        return distinct, values[order]
    sums = np.zeros((len(distinct), values.shape[1]), values.dtype)
    order = np.arange(len(rows), dtype=np.int32)
    row_sums.add_rows(sums, inverse.astype(np.int32), np.ascontiguousarray(values), order)
    return distinct, sums


for _name, _combine in (
    ("scatter", None),
    ("scatter-add", np.add),
    ("scatter-sub", np.subtract),
    ("scatter-mul", np.multiply),
    ("scatter-min", np.minimum),
    ("scatter-max", np.maximum),
):
    _scatter_rule(_name, _combine)
