"""Default arguments for a block of code: ``with arg_scope([conv2d], stride=2):``.

A function takes part when it is decorated with `add_arg_scope`. Scopes nest; an inner one wins,
and an argument of the call itself wins over all. The stack belongs to the thread.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

#: Default arguments by the key of the function.
Scope = dict[str, dict[str, Any]]
F = TypeVar("F", bound=Callable[..., Any])

#: Names of arguments that may have defaults, by the key of the function.
_arguments_of: dict[str, tuple[str, ...]] = {}


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Scope] = [{}]


_stack = _Stack()


def arg_scope_func_key(op: Any) -> str:
    """What a function is known by in a scope."""
    return str(getattr(op, "_key_op", str(op)))


def has_arg_scope(func: Any) -> bool:
    """Whether a function takes part in scopes."""
    return arg_scope_func_key(func) in _arguments_of


def arg_scoped_arguments(func: Any) -> tuple[str, ...]:
    """The arguments of a function that a scope can set.

    Raises:
      ValueError: It does not take part.
    """
    if not has_arg_scope(func):
        raise ValueError(f"{func} is not decorated with @add_arg_scope")
    return _arguments_of[arg_scope_func_key(func)]


def current_arg_scope() -> Scope:
    """The defaults that hold now; can be given to `arg_scope` elsewhere."""
    return _stack.scopes[-1]


@contextlib.contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Scope]:
    """Sets default arguments of functions.

    Args:
      list_ops_or_scope: Functions that are decorated with `add_arg_scope`; or the scope that
        another ``with arg_scope(...) as scope`` gave, to use it again.
      **kwargs: Arguments for all of these functions.

    Raises:
      TypeError: The first argument is neither.
      ValueError: A function does not take part, or arguments are given with a scope.
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError(
                "When attempting to re-use a scope by suppling a dictionary, kwargs must be "
                f"empty, got {sorted(kwargs)}."
            )
        entered: Scope = {key: dict(defaults) for key, defaults in list_ops_or_scope.items()}
    elif isinstance(list_ops_or_scope, list | tuple):
        entered = {key: dict(defaults) for key, defaults in current_arg_scope().items()}
        for op in list_ops_or_scope:
            if not has_arg_scope(op):
                raise ValueError(f"{op} is not decorated with @add_arg_scope")
            entered.setdefault(arg_scope_func_key(op), {}).update(kwargs)
    else:
        raise TypeError(
            "list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict), got "
            f"{list_ops_or_scope!r}"
        )
    _stack.scopes.append(entered)
    try:
        yield entered
    finally:
        _stack.scopes.pop()


def add_arg_scope(func: F) -> F:
    """Lets a function take part in scopes."""

    @functools.wraps(func)
    def with_defaults(*args: Any, **kwargs: Any) -> Any:
        defaults = current_arg_scope().get(arg_scope_func_key(func))
        return func(*args, **{**defaults, **kwargs}) if defaults else func(*args, **kwargs)

    key = arg_scope_func_key(func)
    with_defaults._key_op = key  # type: ignore[attr-defined]
    _arguments_of[key] = _with_default(func)
    return with_defaults  # type: ignore[return-value]


def _with_default(func: Any) -> tuple[str, ...]:
    code = func.__code__
    names: Sequence[str] = code.co_varnames[: code.co_argcount]
    count = len(func.__defaults__ or ())
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return (*(names[-count:] if count else ()), *keyword_only)
