"""What a TPU's cores do together, where there is one core."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import millrace as tf


def cross_replica_sum(x: Any, group_assignment: Any = None, name: str | None = None) -> Any:
    """The sum over all cores: of one, the value."""
    return tf.identity(x, name=name)


@contextlib.contextmanager
def bfloat16_scope(name: str | None = None) -> Iterator[Any]:
    """A variable scope whose variables stay float32 and are read as bfloat16."""

    def read_as_bfloat16(getter: Any, *args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.get("dtype")
        if wanted == tf.bfloat16:
            kwargs["dtype"] = tf.float32
        variable = getter(*args, **kwargs)
        return tf.cast(variable, tf.bfloat16) if wanted == tf.bfloat16 else variable

    with tf.variable_scope(name or "", custom_getter=read_as_bfloat16) as scope:
        yield scope
