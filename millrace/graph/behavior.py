"""The switches between TensorFlow 1's and 2's behaviour. There is one behaviour here: 1's.

Switching to what is the case does nothing; switching to what is not there is an error that
says so, instead of a program that computes something else.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from typing import NoReturn

from millrace.core import errors

__all__ = [
    "control_flow_v2_enabled",
    "disable_control_flow_v2",
    "disable_eager_execution",
    "disable_tensor_equality",
    "disable_v2_behavior",
    "disable_v2_tensorshape",
    "enable_control_flow_v2",
    "enable_eager_execution",
    "enable_tensor_equality",
    "enable_v2_behavior",
    "enable_v2_tensorshape",
    "executing_eagerly",
    "executing_eagerly_outside_functions",
]


def _refuse(what: str) -> NoReturn:
    raise errors.UnimplementedError(
        None, None, f"Millrace runs graphs in sessions, as TensorFlow 1 does: there is no {what}."
    )


def disable_v2_behavior() -> None:
    """Does nothing: this is how it is."""


def enable_v2_behavior() -> None:
    """Raises UnimplementedError: there is no such behaviour."""
    _refuse("TensorFlow 2 behaviour")


def disable_eager_execution() -> None:
    """Does nothing: this is how it is."""


def enable_eager_execution(
    config: object = None, device_policy: object = None, execution_mode: object = None
) -> None:
    """Raises UnimplementedError: operations do not run when they are made."""
    _refuse("eager execution")


def executing_eagerly() -> bool:
    """False: operations make nodes of a graph."""
    return False


def executing_eagerly_outside_functions() -> bool:
    """False: operations make nodes of a graph."""
    return False


def disable_control_flow_v2() -> None:
    """Does nothing: how loops are written as nodes is not visible to a program."""


def enable_control_flow_v2() -> None:
    """Does nothing: how loops are written as nodes is not visible to a program."""


def control_flow_v2_enabled() -> bool:
    """True: `tf.cond` and `tf.while_loop` make one node each, with functions as bodies."""
    return True


def disable_v2_tensorshape() -> None:
    """Does nothing: iterating over a shape gives Dimension objects."""


def enable_v2_tensorshape() -> None:
    """Raises UnimplementedError: iterating over a shape gives Dimension objects."""
    _refuse("TensorShape of TensorFlow 2")


def disable_tensor_equality() -> None:
    """Does nothing: ``a == b`` asks whether two tensors are the same object."""


def enable_tensor_equality() -> None:
    """Raises UnimplementedError: ``a == b`` asks whether two tensors are the same object."""
    _refuse("comparison of tensors by `==`")


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Whether graphs may use what TensorFlow had on that day: all that 1.15 had."""
    return datetime.date(year, month, day) <= _horizon[-1]


#: TensorFlow 1.15 was released on this day.
_horizon = [datetime.date(2019, 10, 14)]


@contextlib.contextmanager
def forward_compatibility_horizon(year: int, month: int, day: int) -> Iterator[None]:
    """Changes what `forward_compatible` compares with, inside the block."""
    _horizon.append(datetime.date(year, month, day))
    try:
        yield
    finally:
        _horizon.pop()
