"""Sums, extremes and running sums along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.numpy_evaluator.program import Evaluated
from millrace.compiler.numpy_evaluator.rules import Call, out_dtype, rule


def lowest(dtype: Any) -> Any:
    """What every number of a type is at least: where a maximum begins."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.False_
    return kind.type(-np.inf) if kind.kind in "fV" else kind.type(np.iinfo(kind).min)


def highest(dtype: Any) -> Any:
    """What every number of a type is at most: where a minimum begins."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.True_
    return kind.type(np.inf) if kind.kind in "fV" else kind.type(np.iinfo(kind).max)


@rule("reduce_sum")
def _sum(eqn: Any) -> Call:
    axes, dtype = tuple(eqn.params["axes"]), np.dtype(out_dtype(eqn))
    if dtype in (np.float16,) or dtype.kind == "V":
        return lambda x: x.astype(np.float32).sum(axes).astype(dtype)
    return lambda x: np.add.reduce(x, axes, dtype)


@rule("reduce_prod")
def _prod(eqn: Any) -> Call:
    axes, dtype = tuple(eqn.params["axes"]), out_dtype(eqn)
    return lambda x: np.multiply.reduce(x, axes, dtype)


@rule("reduce_max")
def _max(eqn: Any) -> Call:
    axes, first = tuple(eqn.params["axes"]), lowest(out_dtype(eqn))
    return lambda x: np.maximum.reduce(x, axes, initial=first)


@rule("reduce_min")
def _min(eqn: Any) -> Call:
    axes, first = tuple(eqn.params["axes"]), highest(out_dtype(eqn))
    return lambda x: np.minimum.reduce(x, axes, initial=first)


for _name, _ufunc in (
    ("reduce_and", np.bitwise_and),
    ("reduce_or", np.bitwise_or),
    ("reduce_xor", np.bitwise_xor),
):

    def _make(eqn: Any, ufunc: Any = _ufunc) -> Call:
        axes = tuple(eqn.params["axes"])
        return lambda x: ufunc.reduce(x, axes)

    rule(_name)(_make)


for _name, _function in (("argmax", np.argmax), ("argmin", np.argmin)):

    def _make_index(eqn: Any, function: Any = _function) -> Call:
        (axis,), dtype = eqn.params["axes"], eqn.params["index_dtype"]
        return lambda x: function(x, axis).astype(dtype)

    rule(_name)(_make_index)


@rule("reduce")
def _reduce(eqn: Any) -> Call:
    """Any function of two sets of values: halves are joined until one is left."""
    axes = tuple(sorted(eqn.params["dimensions"]))
    jaxpr = eqn.params["jaxpr"]
    body = Evaluated(getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ()))
    count = len(eqn.invars) // 2
    # The body is of scalars; its calls work element by element as well.

    def reduce(*values: Any) -> Any:
        xs, starts = values[:count], values[count:]
        kept = [i for i in range(xs[0].ndim) if i not in axes]
        shape = [xs[0].shape[i] for i in kept]
        flat = [np.transpose(x, (*kept, *axes)).reshape((*shape, -1)) for x in xs]
        found = [np.broadcast_to(start, shape) for start in starts]
        for i in range(flat[0].shape[-1]):
            found = body(*found, *(x[..., i] for x in flat))
        return found

    return reduce


def _running(ufunc: Any) -> Any:
    def make(eqn: Any) -> Call:
        axis, dtype = eqn.params["axis"], out_dtype(eqn)
        if eqn.params["reverse"]:
            return lambda x: np.flip(ufunc.accumulate(np.flip(x, axis), axis, dtype), axis)
        return lambda x: ufunc.accumulate(x, axis, dtype)

    return make


_RUNNING: tuple[tuple[str, Any], ...] = (
    ("cumsum", np.add),
    ("cumprod", np.multiply),
    ("cummax", np.maximum),
    ("cummin", np.minimum),
    ("cumlogsumexp", np.logaddexp),
)
for _name, _running_ufunc in _RUNNING:
    rule(_name)(_running(_running_ufunc))
