"""Names of layers, and conditions that are decided while the graph is built where they can be."""

from __future__ import annotations

import re
from typing import Any

import millrace as tf


def to_snake_case(name: str) -> str:
    """``BatchNormalization`` → ``batch_normalization``; a leading underscore gets a word."""
    spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    snake = re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()
    return f"private{snake}" if snake.startswith("_") else snake


def constant_value(pred: Any) -> bool | None:
    """The value of a condition that is known while the graph is built, else None."""
    if isinstance(pred, tf.Variable):
        return None
    if isinstance(pred, tf.Tensor):
        known = tf.get_static_value(pred)
        return None if known is None else bool(known)
    if pred in (0, 1, True, False):
        return bool(pred)
    raise TypeError(
        f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {pred!r}"
    )


def smart_cond(
    pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None
) -> Any:
    """`tf.cond`, without one where the condition is known."""
    if isinstance(pred, tf.Variable):
        return tf.cond(pred, true_fn, false_fn, name=name)
    known = constant_value(pred)
    if known is None:
        kind = pred.dtype.base_dtype
        condition = pred if kind == tf.bool else tf.cast(pred, tf.bool)
        return tf.cond(condition, true_fn, false_fn, name=name)
    return true_fn() if known else false_fn()
