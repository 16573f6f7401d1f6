"""Initializers that keep the scale of values from layer to layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import millrace as tf


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Callable[..., Any]:
    """Glorot's initializer: the variance is 2/(inputs + outputs)."""
    return variance_scaling_initializer(
        factor=1.0, mode="FAN_AVG", uniform=uniform, seed=seed, dtype=dtype
    )


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = tf.float32,
) -> Callable[..., Any]:
    """Values of variance ``factor / n``; n is FAN_IN, FAN_OUT or their mean, FAN_AVG.

    Raises:
      TypeError: The type or mode is not one of these.
    """
    if not dtype.is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")

    def initialize(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Any:
        if not dtype.is_floating:
            raise TypeError("Cannot create initializer for non-floating point type.")
        whole = shape if partition_info is None else partition_info.full_shape
        sizes = [int(size) for size in whole]
        fan_in = float(sizes[-2]) if len(sizes) > 1 else float(sizes[-1]) if sizes else 1.0
        fan_out = float(sizes[-1]) if sizes else 1.0
        field = float(math.prod(sizes[:-2]))
        fan_in, fan_out = fan_in * field, fan_out * field
        n = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2.0}[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / n)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # What is cut off at two deviations has 1.3 times less variance.
        stddev = math.sqrt(1.3 * factor / n)
        return tf.truncated_normal(shape, 0.0, stddev, dtype, seed=seed)

    return initialize
