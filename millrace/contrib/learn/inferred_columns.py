"""Columns of numbers, inferred from what an input gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import millrace as tf
from millrace.estimator.input_fn import features_labels_and_hooks


def infer_real_valued_columns_from_input_fn(input_fn: Callable[[], Any]) -> list[Any]:
    """A column of numbers for each feature of an input function, or for the only one."""
    with tf.Graph().as_default():
        features, _, _ = features_labels_and_hooks(input_fn())
        found: list[Any] = tf.contrib.layers.infer_real_valued_columns(features)
        return found


def infer_real_valued_columns_from_input(x: Any) -> list[Any]:
    """A column of numbers for an array, or for each of a dict of arrays."""
    with tf.Graph().as_default():
        tensors = tf.nest.map_structure(
            lambda each: tf.placeholder(tf.as_dtype(each.dtype), each.shape),
            {k: np.asarray(v) for k, v in x.items()} if isinstance(x, dict) else np.asarray(x),
        )
        found: list[Any] = tf.contrib.layers.infer_real_valued_columns(tensors)
        return found
