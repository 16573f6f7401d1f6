"""Decorators that warn once of what is deprecated."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import millrace as tf

F = TypeVar("F", bound=Callable[..., Any])
_warned: set[Any] = set()


def _warn(key: Any, function: Any, what: str, date: str | None, instructions: str) -> None:
    if key in _warned:
        return
    _warned.add(key)
    when = "in a future version" if date is None else f"after {date}"
    tf.logging.warning(
        "From %s: %s is deprecated and will be removed %s.\nInstructions for updating:\n%s",
        function.__module__,
        what,
        when,
        instructions,
    )


def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable[[F], F]:
    """Warns when the function is called."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            _warn(function, function, function.__qualname__, date, instructions)
            return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def deprecated_args(
    date: str | None, instructions: str, *names: Any, **kwargs: Any
) -> Callable[[F], F]:
    """Warns when one of the arguments is given."""
    plain = [name if isinstance(name, str) else name[0] for name in names]

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapper(*args: Any, **given: Any) -> Any:
            bound = signature.bind_partial(*args, **given).arguments
            for name in plain:
                if name in bound:
                    what = f"calling {function.__qualname__} with {name}"
                    _warn((function, name), function, what, date, instructions)
            return function(*args, **given)

        return wrapper  # type: ignore[return-value]

    return decorate


def deprecated_arg_values(
    date: str | None, instructions: str, warn_once: bool = True, **deprecated_kwargs: Any
) -> Callable[[F], F]:
    """Warns when an argument has one of the values."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapper(*args: Any, **given: Any) -> Any:
            bound = signature.bind_partial(*args, **given).arguments
            for name, value in deprecated_kwargs.items():
                if name in bound and bound[name] == value:
                    what = f"calling {function.__qualname__} with {name}={value}"
                    _warn((function, name, str(value)), function, what, date, instructions)
            return function(*args, **given)

        return wrapper  # type: ignore[return-value]

    return decorate
