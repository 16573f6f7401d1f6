"""`tf.keras.activations`: functions by name."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras import serialization


def linear(x: Any) -> Any:
    """The input."""
    return x


def elu(x: Any, alpha: float = 1.0) -> Any:
    """``x`` where positive, else ``alpha·(exp(x) − 1)``."""
    result = tf.nn.elu(x)
    return result if alpha == 1 else tf.where(x > 0, result, alpha * result)


def selu(x: Any) -> Any:
    """The scaled exponential linear unit."""
    return tf.nn.selu(x)


def softmax(x: Any, axis: int = -1) -> Any:
    """Softmax along an axis.

    Raises:
      ValueError: The input has one dimension.
    """
    rank = x.shape.ndims
    if rank == 2:
        return tf.nn.softmax(x)
    if rank is None or rank > 2:
        shifted = tf.exp(x - tf.reduce_max(x, axis=axis, keepdims=True))
        return shifted / tf.reduce_sum(shifted, axis=axis, keepdims=True)
    raise ValueError("Cannot apply softmax to a tensor that is 1D")


def softplus(x: Any) -> Any:
    """``log(1 + exp(x))``."""
    return tf.nn.softplus(x)


def softsign(x: Any) -> Any:
    """``x / (1 + |x|)``."""
    return tf.nn.softsign(x)


def swish(x: Any) -> Any:
    """``x·sigmoid(x)``."""
    return tf.nn.swish(x)


def relu(x: Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0) -> Any:
    """The rectifier, with a slope below `threshold` and a cap."""
    if alpha != 0.0:
        if max_value is None and threshold == 0:
            return tf.nn.leaky_relu(x, alpha=alpha)
        negative = tf.nn.relu(-x + threshold) if threshold != 0 else tf.nn.relu(-x)
    clip_max = max_value is not None
    if threshold != 0:
        x = x * tf.cast(tf.greater(x, threshold), x.dtype)
    elif max_value == 6:
        x = tf.nn.relu6(x)
        clip_max = False
    else:
        x = tf.nn.relu(x)
    if clip_max:
        x = tf.clip_by_value(x, tf.constant(0.0, x.dtype), tf.constant(max_value, x.dtype))
    if alpha != 0.0:
        x = x - tf.constant(alpha, x.dtype) * negative
    return x


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return tf.nn.tanh(x)


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(−x))``."""
    return tf.nn.sigmoid(x)


def exponential(x: Any) -> Any:
    """``exp(x)``."""
    return tf.exp(x)


def hard_sigmoid(x: Any) -> Any:
    """A sigmoid of three straight lines: ``0.2·x + 0.5`` between 0 and 1."""
    point_two = tf.convert_to_tensor(0.2, x.dtype.base_dtype)
    point_five = tf.convert_to_tensor(0.5, x.dtype.base_dtype)
    return tf.clip_by_value(tf.add(tf.multiply(x, point_two), point_five), 0.0, 1.0)


def gelu(x: Any, approximate: bool = False) -> Any:
    """``x·Φ(x)``, exact or by tanh."""
    if approximate:
        return 0.5 * x * (1.0 + tf.tanh(0.7978845608028654 * (x + 0.044715 * tf.pow(x, 3))))
    return 0.5 * x * (1.0 + tf.math.erf(x / 1.4142135623730951))


_FUNCTIONS = {
    f.__name__: f
    for f in (
        linear, elu, selu, softmax, softplus, softsign, swish, relu, tanh, sigmoid, exponential,
        hard_sigmoid, gelu,
    )
}  # fmt: skip


def serialize(activation: Any) -> str:
    """The name of a function."""
    name = serialization.get_registered_name(activation)
    return {"softmax_v2": "softmax"}.get(name, name)


def deserialize(name: str, custom_objects: dict[str, Any] | None = None) -> Any:
    """The function of a name."""
    return serialization.deserialize_keras_object(
        name, _FUNCTIONS, custom_objects, "activation function"
    )


def get(identifier: Any) -> Any:
    """A function, by name or as it is; `linear` for None.

    Raises:
      TypeError: It is neither.
    """
    if identifier is None:
        return linear
    if isinstance(identifier, str):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    if isinstance(identifier, dict):
        return serialization.deserialize_keras_object(
            identifier, _FUNCTIONS, printable_module_name="activation"
        )
    raise TypeError(f"Could not interpret activation function identifier: {identifier!r}")
