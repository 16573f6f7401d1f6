"""`tf.keras.initializers`: those of `tf.initializers` with Keras's defaults, by name too."""

from __future__ import annotations

import inspect
from typing import Any

import millrace as tf
from millrace.keras import serialization
from millrace.ops.state import initializers as base
from millrace.ops.state.initializers import (
    Constant,
    Identity,
    Initializer,
    Ones,
    Orthogonal,
    VarianceScaling,
    Zeros,
    he_normal,
    he_uniform,
    lecun_normal,
    lecun_uniform,
)
from millrace.ops.state.initializers import GlorotNormal as glorot_normal
from millrace.ops.state.initializers import GlorotUniform as glorot_uniform


class RandomNormal(base.RandomNormal):
    """Normal, of standard deviation 0.05."""

    def __init__(
        self,
        mean: float = 0.0,
        stddev: float = 0.05,
        seed: int | None = None,
        dtype: Any = tf.float32,
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


class RandomUniform(base.RandomUniform):
    """Uniform from −0.05 to 0.05."""

    def __init__(
        self,
        minval: float = -0.05,
        maxval: float = 0.05,
        seed: int | None = None,
        dtype: Any = tf.float32,
    ) -> None:
        super().__init__(minval, maxval, seed, dtype)


class TruncatedNormal(base.TruncatedNormal):
    """Truncated normal, of standard deviation 0.05."""

    def __init__(
        self,
        mean: float = 0.0,
        stddev: float = 0.05,
        seed: int | None = None,
        dtype: Any = tf.float32,
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


GlorotUniform, GlorotNormal = glorot_uniform, glorot_normal
zeros, ones, constant, identity, orthogonal = Zeros, Ones, Constant, Identity, Orthogonal
normal = random_normal = RandomNormal
uniform = random_uniform = RandomUniform
truncated_normal = TruncatedNormal

_KNOWN: dict[str, Any] = {
    "Zeros": Zeros, "zeros": Zeros, "zero": Zeros, "Ones": Ones, "ones": Ones, "one": Ones,
    "Constant": Constant, "constant": Constant, "RandomNormal": RandomNormal,
    "random_normal": RandomNormal, "normal": RandomNormal, "RandomUniform": RandomUniform,
    "random_uniform": RandomUniform, "uniform": RandomUniform,
    "TruncatedNormal": TruncatedNormal, "truncated_normal": TruncatedNormal,
    "VarianceScaling": VarianceScaling, "variance_scaling": VarianceScaling,
    "Orthogonal": Orthogonal, "orthogonal": Orthogonal, "Identity": Identity,
    "identity": Identity, "glorot_uniform": glorot_uniform, "GlorotUniform": glorot_uniform,
    "glorot_normal": glorot_normal, "GlorotNormal": glorot_normal, "he_normal": he_normal,
    "he_uniform": he_uniform, "lecun_normal": lecun_normal, "lecun_uniform": lecun_uniform,
    "UniformUnitScaling": base.UniformUnitScaling,
}  # fmt: skip


def serialize(initializer: Any) -> Any:
    """Class name and configuration."""
    return serialization.serialize_keras_object(initializer)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The initializer of a configuration."""
    return serialization.deserialize_keras_object(config, _KNOWN, custom_objects, "initializer")


def get(identifier: Any) -> Any:
    """An initializer by name or configuration, or a function or tensor as it is.

    Raises:
      ValueError: It is none of these.
    """
    if identifier is None:
        return None
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        found = deserialize(identifier)
        return found if isinstance(found, Initializer) else found()
    if inspect.isclass(identifier):
        return identifier()
    if callable(identifier) or isinstance(identifier, tf.Tensor):
        return identifier
    raise ValueError(f"Could not interpret initializer identifier: {identifier}")


__all__ = [
    "Constant",
    "GlorotNormal",
    "GlorotUniform",
    "Identity",
    "Initializer",
    "Ones",
    "Orthogonal",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "VarianceScaling",
    "Zeros",
    "constant",
    "deserialize",
    "get",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "random_normal",
    "random_uniform",
    "serialize",
    "truncated_normal",
    "uniform",
    "zeros",
]
