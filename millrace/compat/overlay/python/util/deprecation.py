"""What programs take from TensorFlow's python.util.deprecation that has no public name."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from millrace.platform import logging

_PRINT_DEPRECATION_WARNINGS = True
_told: set[object] = set()


def _tell(key: object, text: str) -> None:
    if _PRINT_DEPRECATION_WARNINGS and key not in _told:
        _told.add(key)
        logging.warning(text)


def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable[[Any], Any]:
    """Marks a function as deprecated: its first call says what to use."""

    def decorate(func: Any) -> Any:
        if isinstance(func, type):
            return func

        @functools.wraps(func)
        def call(*args: Any, **keywords: Any) -> Any:
            when = "in a future version" if date is None else f"after {date}"
            _tell(
                func if warn_once else object(),
                f"{func.__module__}.{func.__qualname__} is deprecated and will be removed {when}."
                f"\nInstructions for updating:\n{instructions}",
            )
            return func(*args, **keywords)

        return call

    return decorate


def deprecated_args(
    date: str | None, instructions: str, *deprecated_arg_names_or_tuples: Any, **_: Any
) -> Callable[[Any], Any]:
    """Marks arguments as deprecated: a call that gives one says what to use."""
    names = {n if isinstance(n, str) else n[0] for n in deprecated_arg_names_or_tuples}

    def decorate(func: Any) -> Any:
        signature = inspect.signature(func)

        @functools.wraps(func)
        def call(*args: Any, **keywords: Any) -> Any:
            given = names & set(signature.bind_partial(*args, **keywords).arguments)
            for name in sorted(given):
                _tell((func, name), _about_argument(func, name, date, instructions))
            return func(*args, **keywords)

        return call

    return decorate


def deprecated_arg_values(
    date: str | None, instructions: str, warn_once: bool = True, **deprecated_kwargs: Any
) -> Callable[[Any], Any]:
    """Marks values of arguments as deprecated."""

    def decorate(func: Any) -> Any:
        signature = inspect.signature(func)

        @functools.wraps(func)
        def call(*args: Any, **keywords: Any) -> Any:
            given = signature.bind_partial(*args, **keywords).arguments
            for name, value in deprecated_kwargs.items():
                if name in given and given[name] == value:
                    text = _about_argument(func, f"{name}={value}", date, instructions)
                    _tell((func, name) if warn_once else object(), text)
            return func(*args, **keywords)

        return call

    return decorate


def _about_argument(func: Any, argument: str, date: str | None, instructions: str) -> str:
    when = "in a future version" if date is None else f"after {date}"
    return (
        f"calling {func.__qualname__} (from {func.__module__}) with {argument} is deprecated and "
        f"will be removed {when}.\nInstructions for updating:\n{instructions}"
    )


def deprecated_endpoints(*args: str) -> Callable[[Any], Any]:
    """Marks public names of a function as deprecated."""
    return lambda func: func


def deprecated_alias(
    deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True
) -> Any:
    """The function under a second name that is deprecated."""
    return deprecated(None, f"Please use {name} instead.", warn_once)(func_or_class)


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """The value of an argument that may be given under its old name.

    Raises:
      ValueError: It is given under both.
    """
    if old_value is not None:
        if new_value is not None:
            raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
        return old_value
    return new_value


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Says nothing about what is deprecated, while it lasts."""
    global _PRINT_DEPRECATION_WARNINGS
    before, _PRINT_DEPRECATION_WARNINGS = _PRINT_DEPRECATION_WARNINGS, False
    try:
        yield
    finally:
        _PRINT_DEPRECATION_WARNINGS = before
