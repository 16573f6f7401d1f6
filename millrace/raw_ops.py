"""`tf.raw_ops`: every op type as a function of its inputs and attributes, by keyword.

``tf.raw_ops.MatMul(a=x, b=y, transpose_b=True)``. Several outputs come as a namedtuple.
"""

from collections.abc import Callable
from typing import Any

from millrace.compat import generated_ops
from millrace.graph import registry


def __getattr__(name: str) -> Callable[..., Any]:
    return generated_ops.raw_function(name)


def __dir__() -> list[str]:
    return [d.name for d in registry.all_definitions() if not d.name.startswith("_")]
