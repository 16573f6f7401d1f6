"""`tf.keras.regularizers`: losses of a variable's value."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras import serialization


class Regularizer:
    """A function of a tensor that gives a loss."""

    def __call__(self, x: Any) -> Any:
        """The loss."""
        return tf.constant(0.0)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The regularizer that `get_config` described."""
        return cls(**config)


class L1L2(Regularizer):
    """``l1·Σ|x| + l2·Σx²``."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1 = float(l1)
        self.l2 = float(l2)

    def __call__(self, x: Any) -> Any:
        """The loss."""
        if not self.l1 and not self.l2:
            return tf.constant(0.0, x.dtype.base_dtype)
        terms = []
        if self.l1:
            terms.append(self.l1 * tf.reduce_sum(tf.abs(x)))
        if self.l2:
            terms.append(self.l2 * tf.reduce_sum(tf.square(x)))
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"l1": self.l1, "l2": self.l2}


def l1(l: float = 0.01) -> L1L2:  # noqa: E741
    """``l·Σ|x|``."""
    return L1L2(l1=l)


def l2(l: float = 0.01) -> L1L2:  # noqa: E741
    """``l·Σx²``."""
    return L1L2(l2=l)


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """``l1·Σ|x| + l2·Σx²``."""
    return L1L2(l1=l1, l2=l2)


_KNOWN: dict[str, Any] = {"L1L2": L1L2, "l1": l1, "l2": l2, "l1_l2": l1_l2, "L1": l1, "L2": l2}


def serialize(regularizer: Any) -> Any:
    """Class name and configuration."""
    return serialization.serialize_keras_object(regularizer)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The regularizer of a configuration."""
    return serialization.deserialize_keras_object(config, _KNOWN, custom_objects, "regularizer")


def get(identifier: Any) -> Any:
    """A regularizer by name or configuration, or a function as it is.

    Raises:
      ValueError: It is none of these.
    """
    if identifier is None:
        return None
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        if identifier in ("l1", "l2", "l1_l2"):
            return _KNOWN[identifier]()
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret regularizer identifier: {identifier}")
