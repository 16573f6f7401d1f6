"""What programs take from TensorFlow's python.util.keyword_args that has no public name."""

import functools
from collections.abc import Callable
from typing import Any


def keyword_args_only(func: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a function be called with keyword arguments only."""

    @functools.wraps(func)
    def call(*args: Any, **keywords: Any) -> Any:
        if args:
            raise ValueError(f"Must use keyword args to call {func.__name__}.")
        return func(**keywords)

    return call
