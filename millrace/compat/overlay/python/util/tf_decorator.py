"""What programs take from TensorFlow's python.util.tf_decorator that has no public name."""

import functools
from collections.abc import Callable
from typing import Any


def make_decorator(
    target: Callable[..., Any],
    decorator_func: Callable[..., Any],
    decorator_name: str | None = None,
    decorator_doc: str = "",
    decorator_argspec: Any = None,
) -> Callable[..., Any]:
    """`decorator_func`, with the name, the documentation and the signature of `target`."""
    made = functools.wraps(target)(decorator_func)
    if decorator_doc:
        made.__doc__ = decorator_doc
    return made


def rewrap(
    decorator_func: Callable[..., Any], previous_target: Any, new_target: Callable[..., Any]
) -> None:
    """Puts another function behind a decorator that `make_decorator` made."""
    while getattr(decorator_func, "__wrapped__", previous_target) is not previous_target:
        decorator_func = vars(decorator_func)["__wrapped__"]
    vars(decorator_func)["__wrapped__"] = new_target


def unwrap(maybe_tf_decorator: Any) -> tuple[list[Any], Any]:
    """The decorators around a function, outermost first, and the function."""
    decorators = []
    while hasattr(maybe_tf_decorator, "__wrapped__"):
        decorators.append(maybe_tf_decorator)
        maybe_tf_decorator = maybe_tf_decorator.__wrapped__
    return decorators, maybe_tf_decorator
