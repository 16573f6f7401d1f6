"""Reading and writing elements and slices of tensors by index: gather and scatter.

An index that is out of range fails the step with InvalidArgumentError. XLA clamps such
indices when it gathers and drops them when it scatters, so nothing bad happens until the
check is looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph import constant_value
from millrace.graph.constant_value import check_now
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import Op, op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext, merge_shapes
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import shape as array_shape
from millrace.ops.array.rules import are_rows, place_text, require_rank_at_least, shape_text
from millrace.ops.math import comparison, numeric, reduction, segment

__all__ = [
    "batch_gather",
    "gather",
    "gather_nd",
    "scatter_nd",
    "tensor_scatter_add",
    "tensor_scatter_max",
    "tensor_scatter_min",
    "tensor_scatter_nd_add",
    "tensor_scatter_nd_max",
    "tensor_scatter_nd_min",
    "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update",
    "tensor_scatter_sub",
    "tensor_scatter_update",
]


# -- gather ------------------------------------------------------------------------------


def wide(indices: Any) -> Any:
    """Indices in a type that can name every place of an axis."""
    return indices.astype(np.int32) if indices.dtype.itemsize < 4 else indices


def check_indices(indices: Any, limit: int, check: Any) -> None:
    """Fails the step unless all of `indices` are in [0, limit)."""

    def complaint(found: Any) -> str:
        flat = found.reshape(-1)
        bad = int(np.argmax((flat < 0) | (flat >= limit)))
        return f"indices{place_text(found.shape, bad)} = {flat[bad]} is not in [0, {limit})"

    if check is check_now:
        if not are_rows(indices, limit):
            raise ValueError(complaint(indices))
        return
    check((indices >= 0) & (indices < limit), complaint, indices)


def _gathered_shape(c: ShapeContext) -> TensorShape:
    params, indices = c.shape(0), c.shape(1)
    batch = c.attr("batch_dims")
    value = c.value(2)
    if value is None:
        # The rank does not depend on the axis.
        if params.ndims is None or indices.ndims is None:
            return unknown_shape()
        batch += indices.ndims if batch < 0 else 0
        return unknown_shape(params.ndims - 1 + indices.ndims - batch)
    axis = int(value.item())
    require_rank_at_least(params, axis + 1 if axis >= 0 else -axis)
    if indices.ndims is None:
        return unknown_shape()
    if batch < 0:
        batch += indices.ndims
    if not 0 <= batch <= indices.ndims:
        raise ValueError(
            f"batch_dims {c.attr('batch_dims')} must be at most the rank of indices, "
            f"{indices.ndims}"
        )
    if params.sizes is None:
        return unknown_shape()
    require_rank_at_least(params, batch + 1)
    axis %= len(params.sizes)
    assert indices.sizes is not None
    outer = list(params.sizes[:axis])
    for i in range(batch):
        # Both sides have the batch dimensions: what one does not know the other may.
        outer[i] = outer[i] if outer[i] is not None else indices.sizes[i]
    return TensorShape([*outer, *indices.sizes[batch:], *params.sizes[axis + 1 :]])


def take(params: Any, indices: Any, axis: int, batch: int, xp: Any) -> Any:
    """Slices of `params` along `axis`; the leading `batch` dimensions go together."""
    if xp is np:
        if not batch:
            return np.take(params, indices, axis)
        rows = [
            take(params[i], indices[i], axis - 1, batch - 1, np) for i in range(params.shape[0])
        ]
        if not rows:
            shape = indices.shape + params.shape[axis + 1 :]
            return np.empty(params.shape[:axis] + shape[batch:], params.dtype)
        return np.stack(rows)
    if batch:
        return jax.vmap(lambda p, i: take(p, i, axis - 1, batch - 1, jnp))(
            jnp.asarray(params), jnp.asarray(indices)
        )
    return jnp.take(params, indices, axis=axis, mode="clip")


@op(
    "GatherV2(params: Tparams, indices: Tindices, axis: Taxis) -> output: Tparams "
    "where batch_dims: int = 0; Tindices: {int16, int32, int64}; Taxis: index",
    shape=_gathered_shape,
    static=("axis",),
)
def GatherV2(params: Any, indices: Any, axis: Any, *, batch_dims: int, xp: Any, check: Any) -> Any:
    """Slices of a tensor along an axis, by index."""
    if axis.size != 1:
        raise ValueError("axis must be scalar")
    place, rank, indices = int(axis.item()), params.ndim, wide(indices)
    needed = place + 1 if place >= 0 else -place
    if rank < needed:
        raise ValueError(f"Shape must be at least rank {needed} but is rank {rank}")
    place %= rank
    batch = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(indices.ndim, place):
        raise ValueError(
            f"batch_dims ({batch_dims}) must be at most rank(indices) ({indices.ndim}) and axis "
            f"({place})"
        )
    for i in range(batch):
        if params.shape[i] != indices.shape[i]:
            raise ValueError(
                f"params.shape[{i}]: {params.shape[i]} should be equal to indices.shape[{i}]: "
                f"{indices.shape[i]}"
            )
    check_indices(indices, params.shape[place], check)
    return take(params, indices, place, batch, xp)


@GatherV2.on_host
def _(node: Any, known: Any) -> Any:
    if known[2] is None or known[2].size != 1 or int(known[2].item()) or node.attrs["batch_dims"]:
        return None
    whole = functools.partial(GatherV2.kernel, batch_dims=0, xp=np, check=check_now)

    def rows(params: Any, indices: Any, axis: Any) -> Any:
        if not params.ndim or not are_rows(indices, len(params)):
            return whole(params, indices, axis)
        return params.take(indices, 0)

    return rows


@op(
    "Gather(params: Tparams, indices: Tindices) -> output: Tparams "
    "where validate_indices: bool = true; Tindices: index",
    shape=lambda c: _rows_shape(c.shape(0), c.shape(1)),
)
def Gather(params: Any, indices: Any, *, xp: Any, check: Any) -> Any:
    """Rows of a tensor, by index; the form of old graphs."""
    if not params.ndim:
        raise ValueError("params must be at least 1 dimensional")
    check_indices(indices, params.shape[0], check)
    return take(params, indices, 0, 0, xp)


def _rows_shape(params: TensorShape, indices: TensorShape) -> TensorShape:
    require_rank_at_least(params, 1)
    if params.sizes is None or indices.sizes is None:
        return unknown_shape()
    return TensorShape([*indices.sizes, *params.sizes[1:]])


@Gather.gradient
def _(op: Operation, grad: Any) -> Any:
    return [_row_gradient(op.inputs[0], op.inputs[1], grad), None]


@GatherV2.gradient
def _(op: Operation, grad: Any) -> Any:
    params, indices, axis = op.inputs
    known = constant_value.constant_value(axis)
    batch = op.attrs["batch_dims"]
    if known is not None and known == 0:
        return [_row_gradient(params, indices, grad), None, None]
    if batch < 0:
        if indices.shape.ndims is None:
            raise ValueError(
                "Currently, it is unsupported to take the gradient of tf.gather when batch_dims "
                "< 0 and the rank of the indices is unknown. Please pass a positive batch_dims or "
                "use tf.ensure_shape to update the shape of indices when calling tf.gather. Got "
                f"batch_dims={batch} and indices={indices}"
            )
        batch += indices.shape.ndims
    return [_axis_gradient(params, indices, axis, batch, grad), None, None]


def _row_gradient(params: Tensor, indices: Tensor, grad: Any) -> IndexedSlices:
    with params.graph.colocate_with(params.op):
        shape: Any = array_shape.shape(params)
    count = array_shape.expand_dims(array_shape.size(indices), 0)
    values_shape = array_join.concat([count, shape[1:]], 0)
    values = array_shape.reshape(convert_to_tensor(grad), values_shape)
    return IndexedSlices(values, array_shape.reshape(indices, count), shape)


def _axis_gradient(params: Tensor, indices: Tensor, axis: Tensor, batch: int, grad: Any) -> Tensor:
    """The gradient along another axis than 0: that axis first, summed by index, and back."""
    known, rank = constant_value.constant_value(axis), params.shape.ndims
    shape: Any = array_shape.shape(params)
    if known is not None and rank is not None:
        place: Any = int(known) % rank
        order: Any = [*range(batch), place, *range(batch, place), *range(place + 1, rank)]
        back: Any = np.argsort(order).astype(np.int32)
        outer, inner = shape[:place], shape[place + 1 :]
        order = np.array(order, np.int32)
    else:
        place = axis % array_shape.rank(params)
        outer, inner = shape[:place], shape[place:][1:]
        order = array_join.concat(
            [
                numeric.range(batch),
                array_shape.expand_dims(place, 0),
                numeric.range(batch, place),
                numeric.range(place + 1, array_shape.rank(params)),
            ],
            0,
        )
        back = array_layout.invert_permutation(order)
    values_shape = array_join.concat([outer, [-1], inner], 0)
    values = array_shape.reshape(convert_to_tensor(grad), values_shape)
    values = array_layout.transpose(values, order)
    summed = _summed_by_index(values, indices, batch, gather(shape, order), shape[place])
    return array_layout.transpose(summed, back)


def _summed_by_index(values: Tensor, indices: Tensor, batch: int, shape: Any, size: Any) -> Tensor:
    """Rows of `values` added up by index, separately for each place of the batch."""
    if not batch:
        flat = array_shape.reshape(indices, [-1])
        result: Tensor = segment.unsorted_segment_sum(values, flat, size)
        return result
    outer = shape[:batch]
    batch_size = reduction.reduce_prod(outer)
    # One long table: indices of batch entry i are moved up by i times its size.
    offsets = numeric.range(batch_size) * size
    flat = array_shape.reshape(indices, array_join.stack([batch_size, -1]))
    flat = flat + cast.cast(array_shape.expand_dims(offsets, 1), indices.dtype)
    rows = array_shape.reshape(flat, [-1])
    values = array_shape.reshape(values, array_join.concat([[-1], shape[batch + 1 :]], 0))
    summed = segment.unsorted_segment_sum(values, rows, batch_size * size)
    return array_shape.reshape(summed, shape)


@dispatched
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:
    """Slices of `params` along `axis`, by index.

    Args:
      params: The tensor to read from, or a variable.
      indices: Integers; their shape takes the place of the axis.
      validate_indices: Accepted for compatibility: indices are always checked.
      name: Name of the op.
      axis: The axis; `batch_dims` when None, counted from the front.
      batch_dims: How many leading dimensions of `params` and `indices` go together.
    """
    if axis is None:
        axis = batch_dims
    result: Tensor
    if constant_axis(axis) == 0 and not isinstance(params, Tensor):
        # A variable may read only the rows that are asked for; AttributeError if it does not.
        try:
            result = params.sparse_read(indices, name=name)
        except AttributeError:
            pass
        else:
            return result
    result = GatherV2(params, indices, axis, batch_dims=batch_dims, name=name)
    return result


def constant_axis(axis: Any) -> int | None:
    """An axis argument as a number, where it is one."""
    if isinstance(axis, Tensor):
        value = constant_value.constant_value(axis)
        return None if value is None else int(value)
    return int(axis)


def gather_v2(
    params: Any, indices: Any, axis: Any = None, batch_dims: int = 0, name: str | None = None
) -> Tensor:
    """`gather` in TensorFlow 2's order of arguments."""
    return gather(params, indices, name=name, axis=axis, batch_dims=batch_dims)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """`gather` along the last dimension of `indices`, with all before it as batch dimensions."""
    with name_scope(name, "BatchGather", [params, indices]):
        places = convert_to_tensor(indices, name="indices")
        source = convert_to_tensor(params, name="params")
        rank = places.shape.ndims
        if rank is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        shape: Any = array_shape.shape(places)
        source_shape: Any = array_shape.shape(source)
        tail = source_shape[rank:]
        # One table of all rows of the batch: row i begins at i times the length of a row.
        starts = numeric.range(reduction.reduce_prod(shape[:-1])) * source_shape[rank - 1]
        column = array_shape.reshape(starts, array_join.concat([shape[:-1], [1]], 0))
        flat = array_shape.reshape(places + cast.cast(column, places.dtype), [-1])
        table = array_shape.reshape(source, array_join.concat([[-1], tail], 0))
        rows = gather(table, flat)
        result = array_shape.reshape(rows, array_join.concat([shape, tail], 0))
        result.set_shape(_batch_gathered_shape(source.shape, places.shape))
        return result


def _batch_gathered_shape(params: TensorShape, indices: TensorShape) -> TensorShape:
    if params.sizes is None or indices.sizes is None:
        return unknown_shape()
    batch = len(indices.sizes) - 1
    front = TensorShape(params.sizes[:batch]).merge_with(indices[:batch])
    return front.concatenate(indices[batch:]).concatenate(params[batch + 1 :])


# -- Elements by coordinates -------------------------------------------------------------


def check_coordinates(
    indices: Any, sizes: tuple[int, ...], what: str, check: Any, ending: str = ""
) -> None:
    """Fails the step unless every vector in `indices` is a place in an array of `sizes`."""
    depth = indices.shape[-1]
    limits = np.array(sizes[:depth], indices.dtype)

    def complaint(found: Any) -> str:
        rows = found.reshape(-1, depth)
        bad = int(np.argmax(((rows < 0) | (rows >= limits)).any(-1)))
        place = place_text(found.shape[:-1], bad)
        return (
            f"indices{place} = [{', '.join(str(i) for i in rows[bad])}] does not index into {what} "
            f"{shape_text(sizes)}{ending}"
        )

    check((indices >= 0) & (indices < limits), complaint, indices)


def _coordinates(indices: Any) -> tuple[Any, ...]:
    return tuple(indices[..., i] for i in range(indices.shape[-1]))


def _gathered_nd_shape(c: ShapeContext) -> TensorShape:
    params, indices = c.shape(0), c.shape(1)
    require_rank_at_least(indices, 1)
    if indices.sizes is None or params.sizes is None or indices.sizes[-1] is None:
        return unknown_shape()
    depth = indices.sizes[-1]
    if depth > len(params.sizes):
        raise ValueError(
            "indices.shape[-1] must be <= params.rank, but saw indices shape: "
            f"{shape_text(indices.sizes)} and params shape: {shape_text(params.sizes)}"
        )
    return TensorShape([*indices.sizes[:-1], *params.sizes[depth:]])


@op(
    "GatherNd(params: Tparams, indices: Tindices) -> output: Tparams "
    'where Tindices: {int16, int32, int64}; bad_indices_policy: string = ""',
    shape=_gathered_nd_shape,
)
def GatherNd(params: Any, indices: Any, *, xp: Any, node: Any, check: Any) -> Any:
    """Elements or slices of a tensor, by coordinates."""
    if not params.ndim:
        raise ValueError("params must be at least a vector")
    if not indices.ndim:
        raise ValueError("indices must be at least a vector")
    depth = indices.shape[-1]
    if depth > params.ndim:
        raise ValueError(
            "index innermost dimension length must be <= params rank; saw: "
            f"{depth} vs. {params.ndim}"
        )
    if not depth:
        return xp.broadcast_to(params, indices.shape[:-1] + params.shape)
    indices = wide(indices)
    check_coordinates(indices, params.shape, "param shape", check, f", node name: {node.name}")
    where = _coordinates(indices)
    if xp is np:
        return np.asarray(params[where], params.dtype)
    return jnp.asarray(params).at[where].get(mode="clip")


@GatherNd.gradient
def _(op: Operation, grad: Any) -> Any:
    params, indices = op.inputs
    shape = array_shape.shape(params, out_type=indices.dtype.base_dtype)
    sizes = indices.shape.sizes
    if sizes is not None and len(sizes) == 2 and sizes[-1] == 1:
        return [IndexedSlices(grad, array_shape.squeeze(indices, -1), shape), None]
    return [scatter_nd(indices, grad, shape), None]


def gather_nd(
    params: Any,
    indices: Any,
    name: str | None = None,
    batch_dims: int = 0,
    bad_indices_policy: str = "",
) -> Tensor:
    """Elements or slices of `params` by coordinates in the last dimension of `indices`.

    Args:
      params: The tensor to read from, or a variable.
      indices: Coordinates; ``indices.shape[:-1]`` becomes the front of the result's shape.
      name: Name of the op.
      batch_dims: How many leading dimensions of both go together.
      bad_indices_policy: Accepted for compatibility: bad indices are errors.
    """
    size = constant_axis(batch_dims)
    if size:
        return _batch_gather_nd(params, indices, size, name)
    result: Tensor
    if not isinstance(params, Tensor):
        # As in `gather`: a variable may read only what is asked for.
        try:
            result = params.gather_nd(indices, name=name)
        except AttributeError:
            pass
        else:
            return result
    result = GatherNd(params, indices, name=name)
    return result


def _batch_gather_nd(params: Any, indices: Any, batch: int, name: str | None) -> Tensor:
    """Puts the place in the batch in front of each coordinate vector."""
    with name_scope(name, "BatchGatherND", [params, indices]):
        places = convert_to_tensor(indices, name="indices")
        source = convert_to_tensor(params, name="params")
        rank = places.shape.ndims
        if rank is None or source.shape.ndims is None:
            raise ValueError("batch_dims needs params and indices of known rank")
        if batch < 0 or batch >= rank:
            raise ValueError(f"batch_dims = {batch} must be less than rank(indices) = {rank}")
        if batch >= source.shape.ndims:
            raise ValueError(
                f"batch_dims = {batch} must be less than rank(params) = {source.shape.ndims}"
            )
        shape: Any = array_shape.shape(places)
        source_shape: Any = array_shape.shape(source)
        count = reduction.reduce_prod(shape[:batch])
        table = array_shape.reshape(source, array_join.concat([[count], source_shape[batch:]], 0))
        inner = array_join.concat([[count], shape[batch:]], 0)
        flat = array_shape.reshape(places, inner)
        numbers = cast.cast(numeric.range(count), places.dtype)
        column = array_shape.reshape(numbers, [-1] + [1] * (rank - batch))
        column = array_shape.broadcast_to(
            column, array_join.concat([[count], shape[batch:-1], [1]], 0)
        )
        rows: Tensor = GatherNd(table, array_join.concat([column, flat], -1))
        rows_shape: Any = array_shape.shape(rows)
        return array_shape.reshape(rows, array_join.concat([shape[:batch], rows_shape[1:]], 0))


# -- Scattering --------------------------------------------------------------------------


def _check_update_shapes(indices: TensorShape, updates: TensorShape, target: TensorShape) -> None:
    """Raises ValueError where indices, updates and target cannot go together."""
    if indices.sizes is None or updates.sizes is None:
        return
    count = len(indices.sizes) - 1
    front, rest = TensorShape(indices.sizes[:-1]), TensorShape(updates.sizes[:count])
    try:
        merge_shapes(front, rest)
    except ValueError as error:
        raise ValueError(
            f"Dimensions [0,{count}) of indices[shape={shape_text(indices.sizes)}] = "
            f"{shape_text(indices.sizes[:-1])} must match dimensions [0,{count}) of "
            f"updates[shape={shape_text(updates.sizes)}] = {shape_text(updates.sizes[:count])}: "
            f"{error}"
        ) from None
    depth = indices.sizes[-1]
    if depth is None or target.sizes is None:
        return
    if depth > len(target.sizes):
        raise ValueError(
            f"Indices with {depth} coordinates do not fit the shape {shape_text(target.sizes)}"
        )
    try:
        merge_shapes(TensorShape(target.sizes[depth:]), TensorShape(updates.sizes[count:]))
    except ValueError as error:
        raise ValueError(
            f"Dimensions [{depth},{len(target.sizes)}) of input[shape={shape_text(target.sizes)}] "
            f"= {shape_text(target.sizes[depth:])} must match dimensions "
            f"[{count},{len(updates.sizes)}) of updates[shape={shape_text(updates.sizes)}] = "
            f"{shape_text(updates.sizes[count:])}: {error}"
        ) from None


def _scattered_shape(c: ShapeContext) -> TensorShape:
    target = c.value_as_shape("shape")
    _check_update_shapes(c.shape("indices"), c.shape("updates"), target)
    return target


def _updated_shape(c: ShapeContext) -> TensorShape:
    _check_update_shapes(c.shape("indices"), c.shape("updates"), c.shape(0))
    return c.shape(0)


#: (array, index tuple, updates) -> changed array, for each way to combine: XLA's and NumPy's.
_COMBINATIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "Update": (lambda x, i, u: x.at[i].set(u, mode="drop"), None),
    "Add": (lambda x, i, u: x.at[i].add(u, mode="drop"), np.add),
    "Sub": (lambda x, i, u: x.at[i].add(-u, mode="drop"), np.subtract),
    "Min": (lambda x, i, u: x.at[i].min(u, mode="drop"), np.minimum),
    "Max": (lambda x, i, u: x.at[i].max(u, mode="drop"), np.maximum),
}


def scatter(kind: str, x: Any, indices: Any, updates: Any, xp: Any, check: Any) -> Any:
    """`x` with updates combined into it at coordinates."""
    if not indices.ndim:
        raise ValueError("Indices shape must have rank at least one. Found: []")
    depth = indices.shape[-1]
    count = indices.ndim - 1
    if depth > x.ndim:
        raise ValueError(
            f"The inner dimension of indices, {depth}, must be at most the rank of the output, "
            f"{x.ndim}"
        )
    if updates.shape[:count] != indices.shape[:-1]:
        raise ValueError(
            f"Dimensions [0,{count}) of indices[shape={shape_text(indices.shape)}] must match "
            f"dimensions [0,{count}) of updates[shape={shape_text(updates.shape)}]"
        )
    if updates.shape[count:] != x.shape[depth:]:
        raise ValueError(
            f"Dimensions [{depth},{x.ndim}) of input[shape={shape_text(x.shape)}] must match "
            f"dimensions [{count},{updates.ndim}) of updates[shape={shape_text(updates.shape)}]"
        )
    indices = wide(indices)
    check_coordinates(indices, x.shape, "shape", check)
    where: Any = _coordinates(indices)
    if not depth:
        # No coordinates: every update is of the whole.
        where, x = (np.zeros(indices.shape[:-1], np.int32),), x[None]
    in_xla, on_host = _COMBINATIONS[kind]
    if xp is np:
        result = x.copy()
        if on_host is None:
            result[where] = updates
        else:
            on_host.at(result, where, updates)
    else:
        # A negative index would count from the end: past the end, it is dropped.
        where = tuple(jnp.where(i < 0, x.shape[k], i) if depth else i for k, i in enumerate(where))
        result = in_xla(jnp.asarray(x), where, updates)
    return result if depth else result[0]


@op(
    "ScatterNd(indices: Tindices, updates: T, shape: Tindices) -> output: T "
    'where Tindices: {int16, int32, int64}; bad_indices_policy: string = ""',
    shape=_scattered_shape,
    static=("shape",),
)
def ScatterNd(indices: Any, updates: Any, shape: Any, *, xp: Any, check: Any) -> Any:
    """Zeros with updates added at coordinates."""
    sizes = [int(s) for s in shape]
    if updates.dtype == bool:
        # Sums of bools do not exist in XLA: any of the updates.
        numbers = scatter(
            "Add", xp.zeros(sizes, np.int32), indices, updates.astype(np.int32), xp, check
        )
        return numbers > 0
    return scatter("Add", xp.zeros(sizes, updates.dtype), indices, updates, xp, check)


@ScatterNd.gradient
def _(op: Operation, grad: Any) -> Any:
    return [None, gather_nd(grad, op.inputs[0]), None]


def scatter_nd(
    indices: Any, updates: Any, shape: Any, name: str | None = None, bad_indices_policy: str = ""
) -> Tensor:
    """Zeros of the given shape, with `updates` added at coordinates.

    Args:
      indices: Coordinates in the last dimension; places that repeat add up.
      updates: An element or slice for each coordinate vector.
      shape: The shape of the result.
      name: Name of the op.
      bad_indices_policy: Accepted for compatibility: bad indices are errors.
    """
    result: Tensor = ScatterNd(indices, updates, shape, name=name)
    return result


def _tensor_scatter(kind: str) -> Op:
    """The op that combines updates into a copy of a tensor in the given way."""
    indices = "{int16, int32, int64, uint16}" if kind == "Update" else "index"

    @op(
        f"TensorScatter{kind}(tensor: T, indices: Tindices, updates: T) -> output: T "
        f'where Tindices: {indices}; bad_indices_policy: string = ""',
        shape=_updated_shape,
    )
    def kernel(tensor: Any, indices: Any, updates: Any, *, xp: Any, check: Any) -> Any:
        return scatter(kind, tensor, indices, updates, xp, check)

    return kernel


TensorScatterUpdate = _tensor_scatter("Update")
TensorScatterAdd = _tensor_scatter("Add")
TensorScatterSub = _tensor_scatter("Sub")
TensorScatterMin = _tensor_scatter("Min")
TensorScatterMax = _tensor_scatter("Max")


@TensorScatterUpdate.gradient
def _(op: Operation, grad: Any) -> Any:
    _, indices, updates = op.inputs
    part = gather_nd(grad, indices)
    rest = TensorScatterUpdate(
        array_identity.identity(grad), indices, array_fill.zeros_like(updates)
    )
    return [rest, None, part]


@TensorScatterAdd.gradient
def _(op: Operation, grad: Any) -> Any:
    return [array_identity.identity(grad), None, gather_nd(grad, op.inputs[1])]


@TensorScatterSub.gradient
def _(op: Operation, grad: Any) -> Any:
    part: Any = gather_nd(grad, op.inputs[1])
    return [array_identity.identity(grad), None, -part]


def _extreme_gradient(op: Operation, grad: Any) -> Any:
    """Of minimum and maximum: shared evenly among all that have the extreme value."""
    tensor, indices, updates = op.inputs
    output = op.outputs[0]
    own: Any = cast.cast(comparison.equal(tensor, output), grad.dtype)
    theirs = cast.cast(comparison.equal(updates, gather_nd(output, indices)), grad.dtype)
    shape = array_shape.shape(tensor, out_type=indices.dtype.base_dtype)
    count = own + scatter_nd(indices, theirs, shape)
    share = grad / count
    return [share * own, None, gather_nd(share, indices) * theirs]


TensorScatterMin.gradient(_extreme_gradient)
TensorScatterMax.gradient(_extreme_gradient)

_NON_ALIASING_TYPES = (
    "{float32, float64, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
    "bfloat16, qint16, quint16, uint16, complex128, float16, uint32, uint64, bool}"
)


@op(
    "ScatterNdNonAliasingAdd(input: T, indices: Tindices, updates: T) -> output: T "
    f'where T: {_NON_ALIASING_TYPES}; Tindices: index; bad_indices_policy: string = ""',
    shape=_updated_shape,
)
def ScatterNdNonAliasingAdd(input: Any, indices: Any, updates: Any, *, xp: Any, check: Any) -> Any:
    """The input with updates added at coordinates."""
    return scatter("Add", input, indices, updates, xp, check)


@ScatterNdNonAliasingAdd.gradient
def _(op: Operation, grad: Any) -> Any:
    return [grad, None, gather_nd(grad, op.inputs[1])]


def tensor_scatter_nd_update(
    tensor: Any, indices: Any, updates: Any, name: str | None = None
) -> Tensor:
    """`tensor` with `updates` in place of what is at the coordinates `indices`."""
    result: Tensor = TensorScatterUpdate(tensor, indices, updates, name=name)
    return result


def tensor_scatter_nd_add(
    tensor: Any, indices: Any, updates: Any, name: str | None = None
) -> Tensor:
    """`tensor` with `updates` added at the coordinates `indices`."""
    result: Tensor = TensorScatterAdd(tensor, indices, updates, name=name)
    return result


def tensor_scatter_nd_sub(
    tensor: Any, indices: Any, updates: Any, name: str | None = None
) -> Tensor:
    """`tensor` with `updates` taken away at the coordinates `indices`."""
    result: Tensor = TensorScatterSub(tensor, indices, updates, name=name)
    return result


def tensor_scatter_nd_min(
    tensor: Any, indices: Any, updates: Any, name: str | None = None
) -> Tensor:
    """`tensor` with the smaller of what is at the coordinates and of `updates`."""
    result: Tensor = TensorScatterMin(tensor, indices, updates, name=name)
    return result


def tensor_scatter_nd_max(
    tensor: Any, indices: Any, updates: Any, name: str | None = None
) -> Tensor:
    """`tensor` with the larger of what is at the coordinates and of `updates`."""
    result: Tensor = TensorScatterMax(tensor, indices, updates, name=name)
    return result


tensor_scatter_update = tensor_scatter_nd_update
tensor_scatter_add = tensor_scatter_nd_add
tensor_scatter_sub = tensor_scatter_nd_sub
tensor_scatter_min = tensor_scatter_nd_min
tensor_scatter_max = tensor_scatter_nd_max
