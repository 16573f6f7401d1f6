"""What programs take from TensorFlow's python.util.function_utils that has no public name."""

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


def get_func_name(func: Any) -> str:
    """A function's name."""
    while isinstance(func, functools.partial):
        func = func.func
    return getattr(func, "__name__", None) or type(func).__name__


def get_func_code(func: Any) -> Any:
    """A function's code, or None."""
    return getattr(inspect.unwrap(func), "__code__", None)
