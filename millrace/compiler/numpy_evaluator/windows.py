"""Windows that slide over an array: pooling and its gradients."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from millrace.compiler.numpy_evaluator.program import Evaluated
from millrace.compiler.numpy_evaluator.reductions import highest, lowest
from millrace.compiler.numpy_evaluator.rules import Call, out_dtype, rule


class _Positions:
    """The positions of a window, each as the slices of a padded array that it meets."""

    def __init__(self, eqn: Any, out_shape: tuple[int, ...]) -> None:
        params = eqn.params
        self.window = params["window_dimensions"]
        self.strides = params["window_strides"]
        self.padding = params["padding"]
        rank = len(self.window)
        self.base = params.get("base_dilation") or (1,) * rank
        self.gaps = params.get("window_dilation") or (1,) * rank
        self.out = out_shape

    def padded(self, x: Any, value: Any) -> Any:
        sizes = [(n - 1) * b + 1 if n else 0 for n, b in zip(x.shape, self.base, strict=True)]
        outer = [n + low + high for n, (low, high) in zip(sizes, self.padding, strict=True)]
        if tuple(outer) == x.shape and all(b == 1 for b in self.base):
            return x
        result = np.full(outer, value, x.dtype)
        result[self.inside(x.shape)] = x
        return result

    def inside(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Where the array itself lies in the padded one."""
        return tuple(
            slice(low, low + (n - 1) * b + 1 if n else low, b)
            for n, b, (low, _) in zip(shape, self.base, self.padding, strict=True)
        )

    def slices(self) -> list[tuple[slice, ...]]:
        return [
            tuple(
                slice(k * gap, k * gap + (n - 1) * step + 1 if n else k * gap, step)
                for k, gap, n, step in zip(place, self.gaps, self.out, self.strides, strict=True)
            )
            for place in itertools.product(*map(range, self.window))
        ]


def _pooling(name: str, ufunc: Any, first: Any) -> None:
    @rule(name)
    def make(eqn: Any) -> Call:
        out = eqn.outvars[0].aval
        positions = _Positions(eqn, out.shape)
        slices = positions.slices()
        start = first(out.dtype)

        def pool(x: Any) -> Any:
            padded = positions.padded(x, start)
            result = np.array(padded[slices[0]])
            for where in slices[1:]:
                ufunc(result, padded[where], out=result)
            return result

        return pool


_pooling("reduce_window_sum", np.add, lambda dtype: np.dtype(dtype).type(0))
_pooling("reduce_window_max", np.maximum, lowest)
_pooling("reduce_window_min", np.minimum, highest)


@rule("reduce_window")
def _reduce_window(eqn: Any) -> Call:
    positions = _Positions(eqn, eqn.outvars[0].aval.shape)
    slices = positions.slices()
    count = len(eqn.invars) // 2
    jaxpr = eqn.params["jaxpr"]
    body = Evaluated(getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", eqn.params["consts"]))

    def reduce(*values: Any) -> Any:
        xs, starts = values[:count], values[count:]
        padded = [positions.padded(x, start) for x, start in zip(xs, starts, strict=True)]
        found = [np.broadcast_to(start, positions.out) for start in starts]
        for where in slices:
            found = body(*found, *(x[where] for x in padded))
        return found

    return reduce


@rule("select_and_scatter_add")
def _select_and_scatter_add(eqn: Any) -> Call:
    """Each window's gradient goes to the first element that wins it."""
    source, operand = eqn.invars[0].aval, eqn.invars[1].aval
    is_max = eqn.params["select_prim"].name in ("ge", "gt")
    positions = _Positions(eqn, source.shape)
    slices = positions.slices()
    start = lowest(operand.dtype) if is_max else highest(operand.dtype)
    better = np.greater if is_max else np.less
    dtype = out_dtype(eqn)

    def scatter(gradient: Any, x: Any) -> Any:
        padded = positions.padded(x, start)
        best = np.array(padded[slices[0]])
        winner = np.zeros(best.shape, np.int64)
        for i, where in enumerate(slices[1:], 1):
            value = padded[where]
            wins = better(value, best)
            winner[wins] = i
            best = np.where(wins, value, best)
        result = np.zeros(padded.shape, dtype)
        for i, where in enumerate(slices):
            result[where] += np.where(winner == i, gradient, 0)
        return result[positions.inside(x.shape)]

    return scatter


@rule("select_and_gather_add")
def _select_and_gather_add(eqn: Any) -> Call:
    """The tangent of each window's winner."""
    operand = eqn.invars[1].aval
    is_max = eqn.params["select_prim"].name in ("ge", "gt")
    positions = _Positions(eqn, eqn.outvars[0].aval.shape)
    slices = positions.slices()
    start = lowest(operand.dtype) if is_max else highest(operand.dtype)
    better = np.greater if is_max else np.less

    def gather(tangents: Any, x: Any) -> Any:
        padded, moved = positions.padded(x, start), positions.padded(tangents, 0)
        best, result = padded[slices[0]], moved[slices[0]]
        for where in slices[1:]:
            wins = better(padded[where], best)
            best = np.where(wins, padded[where], best)
            result = np.where(wins, moved[where], result)
        return result

    return gather
