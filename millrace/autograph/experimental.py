"""tf.autograph.experimental: marks for a translator that Millrace does not have."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

__all__ = ["Feature", "do_not_convert", "set_loop_options"]


class Feature(enum.Enum):
    """What a translator may be told to translate, besides control flow."""

    ALL = "ALL"
    AUTO_CONTROL_DEPS = "AUTO_CONTROL_DEPS"
    ASSERT_STATEMENTS = "ASSERT_STATEMENTS"
    BUILTIN_FUNCTIONS = "BUILTIN_FUNCTIONS"
    EQUALITY_OPERATORS = "EQUALITY_OPERATORS"
    LISTS = "LISTS"
    NAME_SCOPES = "NAME_SCOPES"


def do_not_convert(func: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The function itself, or a decorator that returns it: functions run as Python."""
    return (lambda each: each) if func is None else func


def set_loop_options(
    parallel_iterations: int | None = None,
    swap_memory: bool | None = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:
    """Does nothing, as TensorFlow's does in a loop that was not translated."""
