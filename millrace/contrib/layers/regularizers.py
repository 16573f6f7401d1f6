"""Functions of a variable that give a loss, and the sum of such losses."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import millrace as tf

Regularizer = Callable[..., Any]


def _checked(scale: Any) -> None:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real) and scale < 0.0:
        raise ValueError(f"Setting a scale less than 0 on a regularizer: {float(scale):g}")


def l1_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """``scale·Σ|w|``; of scale 0.0 it gives None.

    Raises:
      ValueError: The scale is negative or an integer.
    """
    _checked(scale)
    if isinstance(scale, numbers.Real) and scale == 0.0:
        tf.logging.info("Scale of 0 disables regularizer.")
        return lambda _: None

    def l1(weights: Any, name: str | None = None) -> Any:
        with tf.name_scope(scope, "l1_regularizer", [weights]) as inner:
            my_scale = tf.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return tf.multiply(my_scale, tf.reduce_sum(tf.abs(weights)), name=inner)

    return l1


def l2_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """``scale·Σw²/2``; of scale 0.0 it gives None.

    Raises:
      ValueError: The scale is negative or an integer.
    """
    _checked(scale)
    if isinstance(scale, numbers.Real) and scale == 0.0:
        tf.logging.info("Scale of 0 disables regularizer.")
        return lambda _: None

    def l2(weights: Any) -> Any:
        with tf.name_scope(scope, "l2_regularizer", [weights]) as inner:
            my_scale = tf.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return tf.multiply(my_scale, tf.nn.l2_loss(weights), name=inner)

    return l2


def l1_l2_regularizer(scale_l1: Any = 1.0, scale_l2: Any = 1.0, scope: str | None = None) -> Any:
    """Both.

    Raises:
      ValueError: A scale is negative or an integer.
    """
    for scale in (scale_l1, scale_l2):
        if isinstance(scale, numbers.Integral):
            raise ValueError(f"scale cannot be an integer: {scale}")
    scope = scope or "l1_l2_regularizer"
    if scale_l1 == 0.0:
        return l2_regularizer(scale_l2, scope)
    if scale_l2 == 0.0:
        return l1_regularizer(scale_l1, scope)
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope=scope)


def sum_regularizer(regularizer_list: Any, scope: str | None = None) -> Any:
    """The sum of several; None if there is none."""
    regularizers = [each for each in regularizer_list if each is not None]
    if not regularizers:
        return None

    def total(weights: Any) -> Any:
        with tf.name_scope(scope, "sum_regularizer", [weights]) as inner:
            losses = [each(weights) for each in regularizers]
            losses = [loss for loss in losses if loss is not None]
            return tf.add_n(losses, name=inner) if losses else None

    return total


def apply_regularization(regularizer: Regularizer, weights_list: Any = None) -> Any:
    """The sum of the losses of weights, those of the collection WEIGHTS by default.

    Raises:
      ValueError: A loss is no scalar.
    """
    if not weights_list:
        weights_list = tf.get_collection(tf.GraphKeys.WEIGHTS)
    if not weights_list:
        raise ValueError("No weights to regularize.")
    with tf.name_scope("get_regularization_penalty", values=weights_list) as scope:
        penalties = [regularizer(w) for w in weights_list]
        penalties = [p if p is not None else tf.constant(0.0) for p in penalties]
        for penalty in penalties:
            if penalty.shape.ndims != 0:
                raise ValueError(f"regularizer must return a scalar Tensor instead of {penalty}")
        summed = tf.add_n(penalties, name=scope)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, summed)
        return summed
