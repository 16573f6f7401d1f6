"""`slim.summaries`: summaries of metrics and of images, with prefixes."""

from __future__ import annotations

from typing import Any

import millrace as tf


def _name(tensor: Any, name: str | None, prefix: str | None, postfix: str | None = None) -> str:
    label = name or tensor.op.name
    if prefix:
        label = f"{prefix}/{label}"
    return f"{label}/{postfix}" if postfix else label


def add_histogram_summary(tensor: Any, name: str | None = None, prefix: str | None = None) -> Any:
    """A histogram."""
    return tf.summary.histogram(_name(tensor, name, prefix), tensor)


def add_image_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """Images."""
    label = _name(tensor, name, prefix)
    op = tf.summary.image(name=label, tensor=tensor)
    if print_summary:
        op = tf.Print(op, [tensor], label)
    return op


def add_scalar_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """A scalar, printed too if asked."""
    label = _name(tensor, name, prefix)
    if print_summary:
        tensor = tf.Print(tensor, [tensor], label)
    return tf.summary.scalar(label, tensor)


def add_zero_fraction_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """How much of a tensor is zero."""
    label = _name(tensor, name, prefix, "Fraction of Zero Values")
    fraction = tf.nn.zero_fraction(tensor)
    if print_summary:
        fraction = tf.Print(fraction, [fraction], label)
    return tf.summary.scalar(label, fraction)


def add_histogram_summaries(tensors: Any, prefix: str | None = None) -> list[Any]:
    """Histograms of several tensors."""
    return [add_histogram_summary(tensor, prefix=prefix) for tensor in tensors]


def add_image_summaries(tensors: Any, prefix: str | None = None) -> list[Any]:
    """Images of several tensors."""
    return [add_image_summary(tensor, prefix=prefix) for tensor in tensors]


def add_scalar_summaries(
    tensors: Any, prefix: str | None = None, print_summary: bool = False
) -> list[Any]:
    """Scalars of several tensors."""
    return [add_scalar_summary(t, prefix=prefix, print_summary=print_summary) for t in tensors]


def add_zero_fraction_summaries(tensors: Any, prefix: str | None = None) -> list[Any]:
    """Fractions of zeros of several tensors."""
    return [add_zero_fraction_summary(tensor, prefix=prefix) for tensor in tensors]
