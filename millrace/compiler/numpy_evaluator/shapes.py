"""Moving elements without computing: shapes, order, parts, padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.numpy_evaluator.rules import Call, plain, rule


def _same(x: Any) -> Any:
    return x


for _name in ("copy", "copy_p", "stop_gradient", "name"):
    plain(_name, _same)
plain("optimization_barrier", lambda *xs: list(xs))
plain("device_put", lambda *xs: list(xs))


@rule("reshape")
def _reshape(eqn: Any) -> Call:
    shape, dimensions = eqn.params["new_sizes"], eqn.params["dimensions"]
    if dimensions is None:
        return lambda x: np.reshape(x, shape)
    return lambda x: np.transpose(x, dimensions).reshape(shape)


@rule("broadcast_in_dim")
def _broadcast_in_dim(eqn: Any) -> Call:
    shape, positions = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    between = [1] * len(shape)
    for position, size in zip(positions, eqn.invars[0].aval.shape, strict=True):
        between[position] = size
    if tuple(between) == tuple(shape):
        return lambda x: np.reshape(x, shape)
    return lambda x: np.broadcast_to(np.reshape(x, between), shape)


@rule("broadcast_to")
def _broadcast_to(eqn: Any) -> Call:
    shape = eqn.outvars[0].aval.shape
    return lambda x: np.broadcast_to(x, shape)


@rule("transpose")
def _transpose(eqn: Any) -> Call:
    order = eqn.params["permutation"]
    return lambda x: np.transpose(x, order)


@rule("squeeze")
def _squeeze(eqn: Any) -> Call:
    shape = eqn.outvars[0].aval.shape
    return lambda x: np.reshape(x, shape)


@rule("rev")
def _rev(eqn: Any) -> Call:
    axes = eqn.params["dimensions"]
    return lambda x: np.flip(x, axes)


@rule("concatenate")
def _concatenate(eqn: Any) -> Call:
    axis = eqn.params["dimension"]
    return lambda *xs: np.concatenate(xs, axis)


@rule("stack")
def _stack(eqn: Any) -> Call:
    axis = eqn.params["axis"]
    return lambda *xs: np.stack(xs, axis)


@rule("unstack")
def _unstack(eqn: Any) -> Call:
    axis = eqn.params["axis"]
    return lambda x: list(np.moveaxis(x, axis, 0))


@rule("split")
def _split(eqn: Any) -> Call:
    ends, axis = np.cumsum(eqn.params["sizes"])[:-1], eqn.params["axis"]
    return lambda x: np.split(x, ends, axis)


@rule("tile")
def _tile(eqn: Any) -> Call:
    counts = eqn.params["reps"]
    return lambda x: np.tile(x, counts)


@rule("slice")
def _slice(eqn: Any) -> Call:
    starts, limits = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"] or (1,) * len(starts)
    where = tuple(map(slice, starts, limits, strides))
    return lambda x: x[where]


@rule("pad")
def _pad(eqn: Any) -> Call:
    config = eqn.params["padding_config"]
    shape, dtype = eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype
    sizes = eqn.invars[0].aval.shape
    target: list[slice] = []
    source: list[slice] = []
    for size, (low, _, inner), out in zip(sizes, config, shape, strict=True):
        stride = inner + 1
        first = 0 if low >= 0 else -(low // stride)  # the first that stays
        last = min(size, max(first, -((low - out) // stride)))
        last = min(last, (out - 1 - low) // stride + 1) if out > 0 else first
        last = max(first, min(last, size))
        begin = low + first * stride
        target.append(slice(begin, begin + max(0, (last - first - 1) * stride + 1), stride))
        source.append(slice(first, last))
    into, of = tuple(target), tuple(source)

    def pad(x: Any, value: Any) -> Any:
        result = np.full(shape, value, dtype)
        result[into] = x[of]
        return result

    return pad


@rule("dynamic_slice")
def _dynamic_slice(eqn: Any) -> Call:
    sizes = eqn.params["slice_sizes"]
    last = [n - size for n, size in zip(eqn.invars[0].aval.shape, sizes, strict=True)]

    def take(x: Any, *starts: Any) -> Any:
        where = []
        for start, size, most in zip(starts, sizes, last, strict=True):
            begin = min(max(int(start), 0), most)
            where.append(slice(begin, begin + size))
        return x[tuple(where)]

    return take


@rule("dynamic_update_slice")
def _dynamic_update_slice(eqn: Any) -> Call:
    sizes = eqn.invars[1].aval.shape
    last = [n - size for n, size in zip(eqn.invars[0].aval.shape, sizes, strict=True)]

    def put(x: Any, update: Any, *starts: Any) -> Any:
        where = []
        for start, size, most in zip(starts, sizes, last, strict=True):
            begin = min(max(int(start), 0), most)
            where.append(slice(begin, begin + size))
        result = np.array(x)
        result[tuple(where)] = update
        return result

    return put


@rule("iota")
def _iota(eqn: Any) -> Call:
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    numbers = np.arange(shape[axis]).astype(eqn.params["dtype"])
    between = [1] * len(shape)
    between[axis] = shape[axis]
    made = np.broadcast_to(numbers.reshape(between), shape)
    return lambda: made


@rule("empty")
@rule("empty2")
def _empty(eqn: Any) -> Call:
    shape, dtype = eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype
    return lambda: np.zeros(shape, dtype)


@rule("sort")
def _sort(eqn: Any) -> Call:
    axis, keys = eqn.params["dimension"], eqn.params["num_keys"]

    def sort(*xs: Any) -> Any:
        if len(xs) == 1 and xs[0].dtype.kind in "iub":
            return [np.sort(xs[0], axis, kind="stable")]
        if keys == 1:
            order = np.argsort(_sortable(xs[0]), axis, kind="stable")
        else:
            order = np.lexsort([_sortable(x) for x in reversed(xs[:keys])], axis)
        return [np.take_along_axis(x, order, axis) for x in xs]

    return sort


def _sortable(x: Any) -> Any:
    """Keys that NumPy orders as XLA does: NaN last, and no difference between zeros."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


@rule("top_k")
def _top_k(eqn: Any) -> Call:
    count, axis = eqn.params["k"], eqn.params.get("axis", -1)
    dtype = eqn.outvars[1].aval.dtype

    def largest(x: Any) -> Any:
        # The first of equals comes first, so the order of the reversed array is reversed.
        size = x.shape[axis]
        order = np.argsort(np.flip(_sortable(x), axis), axis, kind="stable")
        order = size - 1 - np.flip(order, axis)
        order = np.take(order, np.arange(count), axis)
        return [np.take_along_axis(x, order, axis), order.astype(dtype)]

    return largest
