"""Summaries of tensors, activations and collections."""

from __future__ import annotations

import functools
from typing import Any

import millrace as tf


def summarize_tensor(tensor: Any, tag: str | None = None) -> Any:
    """A scalar summary of a scalar, a histogram of anything else; None of what has no type."""
    name = tag or tensor.op.name.replace(":", "_")
    if tensor.shape.ndims == 0:
        return tf.summary.scalar(name, tensor)
    return tf.summary.histogram(name, tensor)


def summarize_activation(op: Any) -> Any:
    """A histogram of an activation, and how much of a rectified one is zero."""
    kind = op.op.type
    if kind in ("Relu", "Softplus", "Relu6"):
        zeros = tf.reduce_mean(tf.cast(tf.less(op, tf.cast(1e-3, op.dtype)), tf.float32))
        tf.summary.scalar(f"{op.op.name}/zeros", zeros)
    if kind == "Relu6":
        sixes = tf.reduce_mean(tf.cast(tf.greater(op, 5.9999), tf.float32))
        tf.summary.scalar(f"{op.op.name}/sixes", sixes)
    return tf.summary.histogram(f"{op.op.name}/activation", op)


def summarize_tensors(tensors: Any, summarizer: Any = summarize_tensor) -> list[Any]:
    """Summaries of several tensors."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(
    collection: str, name_filter: str | None = None, summarizer: Any = summarize_tensor
) -> list[Any]:
    """Summaries of the tensors of a collection whose names match."""
    tensors = tf.get_collection(collection, name_filter)
    return [summarizer(tensor) for tensor in tensors]


def summarize_activations(
    name_filter: str | None = None, summarizer: Any = summarize_activation
) -> list[Any]:
    """Summaries of ACTIVATIONS."""
    return summarize_collection(tf.GraphKeys.ACTIVATIONS, name_filter, summarizer)


summarize_variables = functools.partial(summarize_collection, tf.GraphKeys.GLOBAL_VARIABLES)
summarize_weights = functools.partial(summarize_collection, tf.GraphKeys.WEIGHTS)
summarize_biases = functools.partial(summarize_collection, tf.GraphKeys.BIASES)
