"""What a function that a program hands over takes, and what it is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def fn_args(fn: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's arguments, without ``self`` and those that a partial has set."""
    return tuple(
        name
        for name, parameter in inspect.signature(fn).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and not (isinstance(fn, functools.partial) and name in fn.keywords)
    )


def has_kwargs(fn: Callable[..., Any]) -> bool:
    """Whether a function takes any keyword."""
    parameters = inspect.signature(fn).parameters.values()
    return any(each.kind is each.VAR_KEYWORD for each in parameters)


def accepted(fn: Callable[..., Any], **offered: Any) -> dict[str, Any]:
    """Those of the offered keyword arguments that a function names."""
    names = fn_args(fn)
    return {name: value for name, value in offered.items() if name in names}
