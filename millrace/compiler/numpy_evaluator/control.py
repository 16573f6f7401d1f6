"""Calls, conditionals and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.compiler.numpy_evaluator.program import Evaluated
from millrace.compiler.numpy_evaluator.random_bits import stored_type
from millrace.compiler.numpy_evaluator.rules import Call, rule


def _closed(jaxpr: Any, consts: Sequence[Any] = ()) -> Evaluated:
    return Evaluated(getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", consts))


@rule("jit", "pjit", "closed_call", "core_call", "call", "remat2", "checkpoint", "remat")
def _call(eqn: Any) -> Call:
    return _closed(eqn.params["jaxpr"] if "jaxpr" in eqn.params else eqn.params["call_jaxpr"])


@rule("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom(eqn: Any) -> Call:
    for name in ("call_jaxpr", "fun_jaxpr"):
        if name in eqn.params:
            return _closed(eqn.params[name])
    raise NotImplementedError(f"{eqn.primitive.name} with {sorted(eqn.params)}")


@rule("composite")
def _composite(eqn: Any) -> Call:
    return _closed(eqn.params["jaxpr"])


@rule("custom_linear_solve")
def _custom_linear_solve(eqn: Any) -> Call:
    counts, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    solve = _closed(jaxprs.solve)
    ends = np.cumsum([counts.matvec, counts.vecmat, counts.solve, counts.transpose_solve])

    def call(*values: Any) -> Any:
        return solve(*values[ends[1] : ends[2]], *values[ends[3] :])

    call.missing = solve.missing  # type: ignore[attr-defined]
    return call


@rule("platform_index")
def _platform_index(eqn: Any) -> Call:
    platforms = eqn.params["platforms"]
    place = next(
        (i for i, names in enumerate(platforms) if names is None or "cpu" in names),
        len(platforms) - 1,
    )
    return lambda: np.int32(place)


@rule("cond")
def _cond(eqn: Any) -> Call:
    branches = [_closed(branch) for branch in eqn.params["branches"]]

    def choose(index: Any, *values: Any) -> Any:
        place = min(max(int(index), 0), len(branches) - 1)
        return branches[place](*values)

    choose.missing = set().union(*(b.missing for b in branches))  # type: ignore[attr-defined]
    return choose


@rule("while")
def _while(eqn: Any) -> Call:
    condition, body = _closed(eqn.params["cond_jaxpr"]), _closed(eqn.params["body_jaxpr"])
    first, second = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]

    def loop(*values: Any) -> Any:
        known, kept = values[:first], values[first : first + second]
        carried = list(values[first + second :])
        while condition(*known, *carried)[0]:
            carried = body(*kept, *carried)
        return carried

    loop.missing = condition.missing | body.missing  # type: ignore[attr-defined]
    return loop


def _scan_counts(params: Any) -> tuple[int, int]:
    """How many inputs of a scan stay the same, and how many are carried."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carried, _ = params["ft_in"].unpack()  # since JAX 0.12
    return len(consts), len(carried)


@rule("scan")
def _scan(eqn: Any) -> Call:
    params = eqn.params
    body = _closed(params["jaxpr"])
    consts, carries = _scan_counts(params)
    length = params["length"]
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)
    made = [(var.aval.shape, var.aval.dtype) for var in eqn.outvars[carries:]]

    def loop(*values: Any) -> Any:
        kept, carried = values[:consts], list(values[consts : consts + carries])
        rows = values[consts + carries :]
        stacked = [np.empty(shape, stored_type(dtype)) for shape, dtype in made]
        for i in order:
            found = body(*kept, *carried, *(x[i] for x in rows))
            carried = found[:carries]
            for whole, value in zip(stacked, found[carries:], strict=True):
                whole[i] = value
        return [*carried, *stacked]

    loop.missing = body.missing  # type: ignore[attr-defined]
    return loop
