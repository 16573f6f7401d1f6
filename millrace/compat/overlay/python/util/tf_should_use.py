"""What programs take from TensorFlow's python.util.tf_should_use that has no public name."""

from collections.abc import Callable
from typing import Any


def should_use_result(
    fn: Callable[..., Any] | None = None,
    warn_in_eager: bool = False,
    error_in_function: bool = False,
) -> Any:
    """Marks a function whose result is to be used. TensorFlow warns; here nothing happens."""
    return fn if fn is not None else lambda each: each
