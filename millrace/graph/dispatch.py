"""Functions of tensors that other kinds of values may answer for.

A function that is `dispatched` runs as it is. Where it fails on its arguments, those who know
other kinds (ragged tensors) are asked, by the function that was called. So tensors pay nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Called with (function, args, kwargs); returns NotImplemented for what is not theirs.
_handlers: list[Callable[..., Any]] = []


def register_handler(handler: Callable[..., Any]) -> None:
    """Lets somebody answer for what functions of tensors cannot take."""
    _handlers.append(handler)


def dispatched(function: _Function) -> _Function:
    """Decorator: lets handlers answer where a function of tensors fails on its arguments."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError):
            for handler in _handlers:
                result = handler(call, args, kwargs)
                if result is not NotImplemented:
                    return result
            raise

    return call  # type: ignore[return-value]
