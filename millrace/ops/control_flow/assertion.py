"""Assert, and checks for NaN and Inf: what fails a step when a value is not what it should be.

An assertion is pure: it is compiled into the XLA program of what it looks at, and its texts
are only put together when it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import value_text
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import none, unchanged
from millrace.graph.tensor import Tensor

__all__ = ["Assert", "check_numerics"]


@op(
    "Assert(condition: bool, data: [T]) where T: list(type) >= 1; summarize: int = 3",
    shape=none,
    gradient=NO_GRADIENT,
    stateful=True,
)
def AssertOp(condition: Any, data: list[Any], *, summarize: int, xp: Any, check: Any) -> None:
    """Fails the step unless the condition holds; the data are shown then."""
    if condition.ndim:
        sizes = ",".join(str(size) for size in condition.shape)
        raise ValueError(f"In[0] should be a scalar: [{sizes}]")
    # Only the entries that would be shown leave the XLA program.
    heads = [value if _is_text(value) else _head(value, summarize, xp) for value in data]
    computed = [i for i, value in enumerate(data) if not _is_text(value)]
    shapes = [value.shape for value in data]

    def message(*values: Any) -> str:
        shown = list(heads)
        for i, value in zip(computed, values, strict=True):
            shown[i] = value
        texts = (
            value_text.summary(np.asarray(value), summarize, shape)
            for value, shape in zip(shown, shapes, strict=True)
        )
        return "assertion failed: " + " ".join(f"[{text}]" for text in texts)

    check(condition, message, *(heads[i] for i in computed))


def _head(value: Any, count: int, xp: Any) -> Any:
    return value if count < 0 or value.size <= count else xp.reshape(value, (-1,))[:count]


def _is_text(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def Assert(
    condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None
) -> Operation:
    """An operation that fails with InvalidArgumentError unless `condition` holds.

    Args:
      condition: A scalar of type bool.
      data: Tensors to show when it does not.
      summarize: How many entries of each to show; 3 when None, all when negative.
      name: A name for the operation.
    """
    if not isinstance(data, list | tuple):
        raise TypeError(f"Expected list for 'data' argument to 'Assert' Op, not {data}.")
    with name_scope(name, "Assert", [condition, *data]):
        result: Operation = AssertOp(condition, data, summarize=summarize, name="Assert")
    return result


def _finite_check(kinds: Any) -> Any:
    def kernel(tensor: Any, *, message: bytes, xp: Any, check: Any) -> Any:
        def text(negative: Any, positive: Any, nan: Any) -> str:
            return f"{message.decode()} : Tensor had {kinds(negative, positive, nan)} values"

        check(
            xp.all(xp.isfinite(tensor)),
            text,
            xp.any(tensor == -xp.inf),
            xp.any(tensor == xp.inf),
            xp.any(tensor != tensor),
        )
        return tensor

    return kernel


def _inf_and_nan(negative: Any, positive: Any, nan: Any) -> str:
    found = (("Inf", negative or positive), ("NaN", nan))
    return " and ".join(name for name, is_there in found if is_there)


def _signed_inf_and_nan(negative: Any, positive: Any, nan: Any) -> str:
    found = (("-Inf", negative), ("+Inf", positive), ("NaN", nan))
    names = [name for name, is_there in found if is_there]
    return " and ".join(names) if len(names) < 3 else "-Inf, +Inf, and NaN"


#: Passes a tensor on unless it has entries that are NaN or infinite.
CheckNumerics = op(
    "CheckNumerics(tensor: T) -> output: T where T: {bfloat16, float16, float32, float64}; "
    "message: string",
    shape=unchanged,
    stateful=True,
)(_finite_check(_inf_and_nan))

#: As CheckNumerics; its message tells the two infinities apart.
CheckNumericsV2 = op(
    "CheckNumericsV2(tensor: T) -> output: T where T: {bfloat16, float16, float32, float64}; "
    "message: string",
    shape=unchanged,
    stateful=True,
)(_finite_check(_signed_inf_and_nan))


def _gradient_message(op: Operation) -> str:
    return (
        "Not a number (NaN) or infinity (Inf) values detected in gradient. "
        f"{op.attrs['message'].decode()}"
    )


@CheckNumerics.gradient
def _(op: Operation, grad: Tensor) -> Any:
    return CheckNumerics(grad, message=_gradient_message(op))


@CheckNumericsV2.gradient
def _(op: Operation, grad: Tensor) -> Any:
    return CheckNumericsV2(grad, message=_gradient_message(op))


@dispatched
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """`tensor`; the step fails with `message` if it has NaN or infinite entries."""
    return CheckNumerics(tensor, message=message, name=name)
