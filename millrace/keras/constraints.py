"""`tf.keras.constraints`: projections of a variable's value after an update."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras import serialization
from millrace.keras.engine import state


class Constraint:
    """A function of a variable that gives its projected value."""

    def __call__(self, w: Any) -> Any:
        """The projected value."""
        return w

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {}


def _norms(w: Any, axis: Any) -> Any:
    return tf.sqrt(tf.reduce_sum(tf.square(w), axis=axis, keepdims=True))


class MaxNorm(Constraint):
    """Columns are shortened to a length."""

    def __init__(self, max_value: float = 2, axis: Any = 0) -> None:
        self.max_value = max_value
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        """The projected value."""
        norms = _norms(w, self.axis)
        wanted = tf.clip_by_value(norms, 0.0, self.max_value)
        return w * (wanted / (state.epsilon() + norms))

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"max_value": self.max_value, "axis": self.axis}


class NonNeg(Constraint):
    """What is negative becomes 0."""

    def __call__(self, w: Any) -> Any:
        """The projected value."""
        return w * tf.cast(tf.greater_equal(w, 0.0), w.dtype.base_dtype)


class UnitNorm(Constraint):
    """Columns get length 1."""

    def __init__(self, axis: Any = 0) -> None:
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        """The projected value."""
        return w / (state.epsilon() + _norms(w, self.axis))

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"axis": self.axis}


class MinMaxNorm(Constraint):
    """Columns get a length between two bounds, at a rate."""

    def __init__(
        self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Any = 0
    ) -> None:
        self.min_value = min_value
        self.max_value = max_value
        self.rate = rate
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        """The projected value."""
        norms = _norms(w, self.axis)
        clipped = tf.clip_by_value(norms, self.min_value, self.max_value)
        wanted = self.rate * clipped + (1 - self.rate) * norms
        return w * (wanted / (state.epsilon() + norms))

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {
            "min_value": self.min_value,
            "max_value": self.max_value,
            "rate": self.rate,
            "axis": self.axis,
        }


max_norm = MaxNorm
non_neg = NonNeg
unit_norm = UnitNorm
min_max_norm = MinMaxNorm
maxnorm, nonneg, unitnorm = MaxNorm, NonNeg, UnitNorm

_KNOWN = {
    "MaxNorm": MaxNorm, "max_norm": MaxNorm, "NonNeg": NonNeg, "non_neg": NonNeg,
    "UnitNorm": UnitNorm, "unit_norm": UnitNorm, "MinMaxNorm": MinMaxNorm,
    "min_max_norm": MinMaxNorm,
}  # fmt: skip


def serialize(constraint: Any) -> Any:
    """Class name and configuration."""
    return serialization.serialize_keras_object(constraint)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The constraint of a configuration."""
    return serialization.deserialize_keras_object(config, _KNOWN, custom_objects, "constraint")


def get(identifier: Any) -> Any:
    """A constraint by name or configuration, or a function as it is.

    Raises:
      ValueError: It is none of these.
    """
    if identifier is None:
        return None
    if isinstance(identifier, dict | str):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret constraint identifier: {identifier}")
