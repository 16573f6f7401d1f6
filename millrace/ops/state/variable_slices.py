"""Op types that read and change rows, elements and slices of variables.

A bad index fails the step with InvalidArgumentError, and nothing is written for it: XLA's
scatters drop what is out of range. Negative indices are bad ones (NumPy would count from the
end), so they are put past the end first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.constant_value import check_now
from millrace.graph.define import Op, op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, merge_shapes, none, unchanged
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import gather as array_gather
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.array.rules import are_rows
from millrace.ops.cluster import padded_unique
from millrace.ops.state.row_updates import ROW_UPDATES, RowUpdate
from millrace.ops.state.variable_ops import VariableShape, shape_behind_handle, shape_text

__all__: list[str] = []


# -- Rows of a variable --------------------------------------------------------------------

#: (value, index tuple or array, updates) -> new value; out of range indices are dropped.
Scatter = Callable[[Any, Any, Any], Any]


def check_rows(indices: Any, count: int, check: Any) -> None:
    """Fails the step unless all of `indices` are rows of a table with `count` rows."""

    def message(found: Any) -> str:
        flat = np.ravel(found)
        bad = int(np.argmax((flat < 0) | (flat >= count)))
        place = ",".join(str(i) for i in np.unravel_index(bad, np.shape(found)))
        return f"indices[{place}] = {flat[bad]} is not in [0, {count})"

    if check is check_now:
        if not are_rows(indices, count):
            raise ValueError(message(indices))
        return
    check((indices >= 0) & (indices < count), message, indices)


def in_bounds(indices: Any, count: int) -> Any:
    """`indices` with negative ones put past the end, where a scatter drops them."""
    return jnp.where(indices < 0, jnp.asarray(count, indices.dtype), indices)


def _numpy_scatter(function: Any) -> Scatter:
    def scatter(value: np.ndarray, index: Any, updates: Any) -> np.ndarray:
        result = value.copy()
        function(result, index, updates)
        return result

    return scatter


def _divided(x: Any, y: Any) -> Any:
    """Division as C++ does it: towards zero for integers."""
    return lax.div(x, y)


def _scatter_divide(value: Any, index: Any, updates: Any) -> Any:
    # Rows that repeat are divided by the product of their divisors.
    divisors = jnp.ones_like(value).at[index].multiply(updates, mode="drop")
    return _divided(value, divisors)


def _numpy_divide(x: Any, index: Any, updates: Any) -> None:
    if np.issubdtype(x.dtype, np.integer):
        divisors = np.ones_like(x)
        np.multiply.at(divisors, index, updates)
        x[...] = np.trunc(x / divisors).astype(x.dtype)
    else:
        np.divide.at(x, index, updates)


#: By name of the combination: in XLA, and on the host (strings, stages that are interpreted).
_SCATTERS: dict[str, tuple[Scatter, Scatter]] = {
    "Update": (
        lambda v, i, u: v.at[i].set(u, mode="drop"),
        _numpy_scatter(lambda x, i, u: x.__setitem__(i, u)),
    ),
    "Add": (lambda v, i, u: v.at[i].add(u, mode="drop"), _numpy_scatter(np.add.at)),
    "Sub": (lambda v, i, u: v.at[i].add(-u, mode="drop"), _numpy_scatter(np.subtract.at)),
    "Mul": (lambda v, i, u: v.at[i].multiply(u, mode="drop"), _numpy_scatter(np.multiply.at)),
    "Div": (_scatter_divide, _numpy_scatter(_numpy_divide)),
    "Min": (lambda v, i, u: v.at[i].min(u, mode="drop"), _numpy_scatter(np.minimum.at)),
    "Max": (lambda v, i, u: v.at[i].max(u, mode="drop"), _numpy_scatter(np.maximum.at)),
}


#: What is added to rows on the host, of updates.
_IN_PLACE: dict[str, Any] = {"Add": np.asarray, "Sub": np.negative}

#: The same for a row that occurs once; only what optimizers use.
_ROW_RULES: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda row, update: row + update,
    "Sub": lambda row, update: row + -update,
}


def _scatter_rows(
    variable: Any, indices: Any, updates: Any, xp: Any, check: Any, node: Any, kind: str
) -> None:
    value = variable.read()
    if not value.ndim:
        raise ValueError(f"params must be at least 1-D, got shape {shape_text(value.shape)}")
    if updates.shape not in ((), indices.shape + value.shape[1:]):
        raise ValueError(
            "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], "
            f"got updates.shape {shape_text(updates.shape)}, indices.shape "
            f"{shape_text(indices.shape)}, params.shape {shape_text(value.shape)}"
        )
    if node.attrs.get("_padded"):
        padded_unique.check_padded(indices, value.shape[0], check)
    else:
        check_rows(indices, value.shape[0], check)
    in_xla, on_host = _SCATTERS[kind]
    if xp is np:
        if node.attrs.get("_padded"):
            named = indices != padded_unique.padding(indices.dtype)
            updates = updates[named] if updates.ndim else updates
            indices = indices[named]
        if kind in _IN_PLACE and value.dtype in (np.float32, np.float64):
            rows = indices.reshape(-1)
            changes = _IN_PLACE[kind](updates)
            if not updates.ndim:
                changes = np.broadcast_to(changes, indices.shape + value.shape[1:])
            variable.add_rows(rows, changes.reshape(len(rows), *value.shape[1:]))
        elif kind == "Update" and indices.ndim:
            # Of a row that is named twice the last one stays.
            variable.write_rows(indices, updates)
        else:
            variable.write(on_host(value, indices, updates))
    else:
        rows = in_bounds(jnp.asarray(indices), value.shape[0])
        variable.write(in_xla(jnp.asarray(value), rows, updates))


def _check_scatter_shapes(variable: TensorShape, c: ShapeContext) -> None:
    indices, updates = c.shape(1), c.shape(2)
    if variable.ndims is None or indices.ndims is None or updates.ndims in (None, 0):
        return
    merge_shapes(updates, indices.concatenate(variable[1:]))


def _scatter_shape(c: ShapeContext) -> TensorShape:
    _check_scatter_shapes(c.shape(0), c)
    return c.shape(0)


def _resource_scatter_shape(c: ShapeContext) -> list[TensorShape]:
    name = "T" if "T" in c.attrs else "dtype"
    _check_scatter_shapes(shape_behind_handle(c, c.attr(name)), c)
    return []


_MINMAX_TYPES = "{float16, bfloat16, float32, float64, int32, int64}"


def _scatter_ops(kind: str) -> tuple[Op, Op]:
    """The reference and resource forms of one way to combine rows."""
    types = {"Update": "type", "Min": _MINMAX_TYPES, "Max": _MINMAX_TYPES}.get(kind, "number")
    locking = str(kind == "Update").lower()

    @op(
        f"Scatter{kind}(ref: ref(T), indices: Tindices, updates: T) -> output_ref: ref(T) where "
        f"T: {types}; Tindices: index; use_locking: bool = {locking}",
        shape=_scatter_shape,
        gradient=NO_GRADIENT,
        updates=("ref",),
    )
    def by_reference(
        ref: Any, indices: Any, updates: Any, *, xp: Any, check: Any, node: Any
    ) -> Any:
        _scatter_rows(ref, indices, updates, xp, check, node, kind)
        return ref

    handle_types = "type" if kind == "Update" else "number"

    @op(
        f"ResourceScatter{kind}(resource: resource, indices: Tindices, updates: dtype) where "
        f"dtype: {handle_types}; Tindices: index",
        shape=_resource_scatter_shape,
        gradient=NO_GRADIENT,
        updates=("resource",),
        stateful=True,
    )
    def by_handle(
        resource: Any, indices: Any, updates: Any, *, xp: Any, check: Any, node: Any
    ) -> None:
        _scatter_rows(resource, indices, updates, xp, check, node, kind)

    if kind in _ROW_RULES:
        rule = _ROW_RULES[kind]
        for made in (by_reference, by_handle):
            ROW_UPDATES[made.name] = RowUpdate(
                1, 2, 1, lambda rows, given, node: [rule(rows[0], given[1])]
            )
    return by_reference, by_handle


ScatterUpdate, ResourceScatterUpdate = _scatter_ops("Update")
ScatterAdd, ResourceScatterAdd = _scatter_ops("Add")
ScatterSub, ResourceScatterSub = _scatter_ops("Sub")
ScatterMul, ResourceScatterMul = _scatter_ops("Mul")
ScatterDiv, ResourceScatterDiv = _scatter_ops("Div")
ScatterMin, ResourceScatterMin = _scatter_ops("Min")
ScatterMax, ResourceScatterMax = _scatter_ops("Max")


# -- Slices and elements of a variable -----------------------------------------------------


def check_coordinates(indices: Any, sizes: tuple[int, ...], check: Any) -> None:
    """Fails the step unless every vector in `indices` is a place in a tensor of `sizes`."""
    limits = np.asarray(sizes[: indices.shape[-1]], indices.dtype)

    def message(found: Any) -> str:
        rows = np.reshape(found, (-1, found.shape[-1]))
        bad = int(np.argmax(np.any((rows < 0) | (rows >= limits), axis=-1)))
        place = ",".join(str(i) for i in np.unravel_index(bad, found.shape[:-1]))
        return (
            f"indices[{place}] = {[int(i) for i in rows[bad]]} does not index into shape "
            f"{shape_text(sizes)}"
        )

    check((indices >= 0) & (indices < limits), message, indices)


def _scatter_coordinates(
    variable: Any, indices: Any, updates: Any, xp: Any, check: Any, kind: str
) -> None:
    value = variable.read()
    depth = indices.shape[-1] if indices.ndim else 0
    if not indices.ndim or depth > value.ndim:
        raise ValueError(
            f"indices{shape_text(indices.shape)} have {depth} coordinates, but the variable has "
            f"the shape {shape_text(value.shape)}"
        )
    if updates.shape != indices.shape[:-1] + value.shape[depth:]:
        raise ValueError(
            f"Dimensions of indices[shape={shape_text(indices.shape)}] and "
            f"input[shape={shape_text(value.shape)}] must match dimensions of "
            f"updates[shape={shape_text(updates.shape)}]"
        )
    check_coordinates(indices, value.shape, check)
    in_xla, on_host = _SCATTERS[kind]
    if depth == 0:
        # No coordinate: every update is of the whole.
        index: Any = (np.zeros(indices.shape[:-1], np.int32),)
        value = value[None]
    elif xp is np:
        index = tuple(indices[..., i] for i in range(depth))
    else:
        index = tuple(in_bounds(jnp.asarray(indices[..., i]), value.shape[i]) for i in range(depth))
    if xp is np:
        result = on_host(value, index, updates)
    else:
        result = in_xla(jnp.asarray(value), index, updates)
    variable.write(result if depth else result[0])


def _scatter_nd_shape(c: ShapeContext) -> TensorShape:
    _check_prefix(c)
    return c.shape(0)


def _resource_scatter_nd_shape(c: ShapeContext) -> list[TensorShape]:
    shape_behind_handle(c, c.attr("T"))
    _check_prefix(c)
    return []


def _check_prefix(c: ShapeContext) -> None:
    """Indices and updates agree in how many updates there are."""
    indices, updates = c.shape(1).sizes, c.shape(2).sizes
    if indices is None or updates is None:
        return
    for m, n in zip(indices[:-1], updates, strict=False):
        if m is not None and n is not None and m != n:
            raise ValueError(
                f"Dimensions [0,{len(indices) - 1}) of indices[shape={c.shape(1).as_list()}] = "
                f"{list(indices[:-1])} must match dimensions [0,{len(indices) - 1}) of "
                f"updates[shape={c.shape(2).as_list()}] = {list(updates[: len(indices) - 1])}"
            )


def _scatter_nd_ops(kind: str) -> tuple[Op, Op]:
    types = "type" if kind == "Update" else "number"
    locking = str(kind == "Update").lower()

    @op(
        f"ScatterNd{kind}(ref: ref(T), indices: Tindices, updates: T) -> output_ref: ref(T) "
        f"where T: {types}; Tindices: index; use_locking: bool = {locking}; "
        'bad_indices_policy: string = ""',
        shape=_scatter_nd_shape,
        gradient=NO_GRADIENT,
        updates=("ref",),
    )
    def by_reference(ref: Any, indices: Any, updates: Any, *, xp: Any, check: Any) -> Any:
        _scatter_coordinates(ref, indices, updates, xp, check, kind)
        return ref

    @op(
        f"ResourceScatterNd{kind}(ref: resource, indices: Tindices, updates: T) where T: type; "
        'Tindices: index; use_locking: bool = true; bad_indices_policy: string = ""',
        shape=_resource_scatter_nd_shape,
        gradient=NO_GRADIENT,
        updates=("ref",),
        stateful=True,
    )
    def by_handle(ref: Any, indices: Any, updates: Any, *, xp: Any, check: Any) -> None:
        _scatter_coordinates(ref, indices, updates, xp, check, kind)

    return by_reference, by_handle


ScatterNdUpdate, ResourceScatterNdUpdate = _scatter_nd_ops("Update")
ScatterNdAdd, ResourceScatterNdAdd = _scatter_nd_ops("Add")
ScatterNdSub, ResourceScatterNdSub = _scatter_nd_ops("Sub")
ScatterNdMin, ResourceScatterNdMin = _scatter_nd_ops("Min")
ScatterNdMax, ResourceScatterNdMax = _scatter_nd_ops("Max")


def _gather_shape(c: ShapeContext) -> TensorShape:
    params, indices = shape_behind_handle(c, c.attr("dtype")), c.shape(1)
    if params.ndims is None or indices.ndims is None:
        return unknown_shape()
    batch = c.attr("batch_dims")
    if batch < 0:
        batch += indices.ndims
    return params[:batch].concatenate(indices[batch:]).concatenate(params[batch + 1 :])


@op(
    "ResourceGather(resource: resource, indices: Tindices) -> output: dtype where "
    "batch_dims: int = 0; validate_indices: bool = true; dtype: type; Tindices: index",
    shape=_gather_shape,
    stateful=True,
)
def ResourceGather(resource: Any, indices: Any, *, batch_dims: int, xp: Any, check: Any) -> Any:
    """Rows of the variable behind a handle."""
    value = resource.read()
    batch = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if value.ndim <= batch:
        raise ValueError(f"params must be at least {batch + 1} dimensional")
    check_rows(indices, value.shape[batch], check)
    if batch:
        leading = np.ix_(*(np.arange(n) for n in indices.shape[:batch]))
        rest = (1,) * (indices.ndim - batch)
        return value[(*(np.reshape(i, i.shape + rest) for i in leading), indices)]
    return xp.take(value, indices, axis=0, mode="clip")


@ResourceGather.gradient
def _(op: Operation, grad: Tensor) -> Any:
    if op.attrs["batch_dims"]:
        raise NotImplementedError("The gradient of ResourceGather with batch_dims is not known")
    handle, indices = op.inputs
    with op.graph.colocate_with(handle.op):
        params_shape = VariableShape(handle)
    size = array_shape.expand_dims(array_shape.size(indices), 0)
    values_shape = array_join.concat([size, params_shape[1:]], 0)
    values = array_shape.reshape(grad, values_shape)
    flat = array_shape.reshape(indices, size)
    return [IndexedSlices(values, flat, params_shape), None]


def _gather_nd_shape(c: ShapeContext) -> TensorShape:
    params, indices = shape_behind_handle(c, c.attr("dtype")), c.shape(1)
    if params.sizes is None or indices.sizes is None or indices.sizes[-1] is None:
        return unknown_shape()
    depth = indices.sizes[-1]
    if depth > len(params.sizes):
        raise ValueError(
            "indices.shape[-1] must be <= params.rank, but saw indices shape: "
            f"{indices.as_list()} and params shape: {params.as_list()}"
        )
    return indices[:-1].concatenate(params[depth:])


@op(
    "ResourceGatherNd(resource: resource, indices: Tindices) -> output: dtype where dtype: type; "
    "Tindices: index",
    shape=_gather_nd_shape,
    stateful=True,
)
def ResourceGatherNd(resource: Any, indices: Any, *, xp: Any, check: Any) -> Any:
    """Elements or slices of the variable behind a handle."""
    value = resource.read()
    depth = indices.shape[-1]
    check_coordinates(indices, value.shape, check)
    if not depth:
        return xp.broadcast_to(value, indices.shape[:-1] + value.shape)
    last = np.asarray(value.shape[:depth], indices.dtype) - 1
    clipped = xp.clip(indices, 0, last)
    return value[tuple(clipped[..., i] for i in range(depth))]


@ResourceGatherNd.gradient
def _(op: Operation, grad: Tensor) -> Any:
    handle, indices = op.inputs
    shape = VariableShape(handle, out_type=indices.dtype)
    if indices.shape.ndims == 2 and indices.shape.as_list()[-1] == 1:
        return [IndexedSlices(grad, array_shape.squeeze(indices, axis=-1), shape), None]
    return [array_gather.scatter_nd(indices, grad, shape), None]


# -- Strided slices of a variable ----------------------------------------------------------


def _strided_index(
    rank: int, begin: Any, end: Any, strides: Any, masks: dict[str, int]
) -> tuple[Any, ...]:
    """The Python index that a StridedSlice with these bounds and masks means."""

    def bit(mask: str, i: int) -> bool:
        return bool(masks[mask] >> i & 1)

    index: list[Any] = []
    for i in range(len(begin)):
        if bit("ellipsis_mask", i):
            index.append(Ellipsis)
        elif bit("new_axis_mask", i):
            index.append(None)
        elif bit("shrink_axis_mask", i):
            index.append(int(begin[i]))
        else:
            index.append(
                slice(
                    None if bit("begin_mask", i) else int(begin[i]),
                    None if bit("end_mask", i) else int(end[i]),
                    int(strides[i]),
                )
            )
    return tuple(index)


def _assign_slice(
    variable: Any, bounds: tuple[Any, Any, Any], value: Any, masks: dict[str, int], xp: Any
) -> None:
    current = variable.read()
    index = _strided_index(current.ndim, *bounds, masks)
    # An empty array of this shape tells bad indices and the slice's shape without any data.
    window = np.broadcast_to(np.zeros((), np.int8), current.shape)[index].shape
    try:
        np.broadcast_shapes(value.shape, window)
        fits = np.broadcast_shapes(value.shape, window) == window
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"Cannot broadcast input shape {shape_text(value.shape)} into final shape "
            f"{shape_text(window)}"
        )
    if xp is np:
        changed = current.copy()
        changed[index] = value
    else:
        changed = jnp.asarray(current).at[index].set(value)
    variable.write(changed)


_MASKS = "; ".join(
    f"{name}_mask: int = 0" for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
)


@op(
    "StridedSliceAssign(ref: ref(T), begin: Index, end: Index, strides: Index, value: T) -> "
    f"output_ref: ref(T) where T: type; Index: index; {_MASKS}",
    shape=unchanged,
    gradient=NO_GRADIENT,
    static=("begin", "end", "strides"),
    updates=("ref",),
)
def StridedSliceAssign(
    ref: Any,
    begin: Any,
    end: Any,
    strides: Any,
    value: Any,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
    xp: Any,
) -> Any:
    """Replaces a slice of a variable."""
    masks = _named_masks(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    _assign_slice(ref, (begin, end, strides), value, masks, xp)
    return ref


@op(
    "ResourceStridedSliceAssign(ref: resource, begin: Index, end: Index, strides: Index, "
    f"value: T) where T: type; Index: index; {_MASKS}",
    shape=none,
    gradient=NO_GRADIENT,
    static=("begin", "end", "strides"),
    updates=("ref",),
    stateful=True,
)
def ResourceStridedSliceAssign(
    ref: Any,
    begin: Any,
    end: Any,
    strides: Any,
    value: Any,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
    xp: Any,
) -> None:
    """Replaces a slice of the variable behind a handle."""
    masks = _named_masks(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    _assign_slice(ref, (begin, end, strides), value, masks, xp)


def _named_masks(*values: int) -> dict[str, int]:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return dict(zip(names, values, strict=True))
