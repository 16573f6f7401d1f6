"""What programs take from TensorFlow's python.ops.custom_gradient that has no public name."""

from typing import Any

from millrace.ops.functions.custom_gradient import custom_gradient


def _graph_mode_decorator(f: Any, *args: Any) -> Any:
    """Calls ``f(*args)`` with the gradient that it returns; 1.15 gives args and kwargs as two."""
    if len(args) == 2 and isinstance(args[0], tuple | list) and isinstance(args[1], dict):
        args = tuple(args[0])
    return custom_gradient(f)(*args)
