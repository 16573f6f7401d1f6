"""What programs take from TensorFlow's python.util.function_utils that has no public name."""

import functools
import inspect
from typing import Any

from millrace.platform.function_arguments import fn_args, has_kwargs


def get_func_name(func: Any) -> str:
    """A function's name."""
    while isinstance(func, functools.partial):
        func = func.func
    return getattr(func, "__name__", None) or type(func).__name__


def get_func_code(func: Any) -> Any:
    """A function's code, or None."""
    return getattr(inspect.unwrap(func), "__code__", None)
