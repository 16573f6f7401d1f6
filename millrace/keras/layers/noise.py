"""Noise in training."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras.engine import state
from millrace.keras.engine.base_layer import Layer
from millrace.keras.engine.naming import smart_cond


class GaussianNoise(Layer):
    """Adds normal noise in training."""

    def __init__(self, stddev: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.stddev = stddev

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, in training with noise."""
        training = state.learning_phase() if training is None else training
        return smart_cond(
            training,
            lambda: inputs + tf.random_normal(tf.shape(inputs), stddev=self.stddev),
            lambda: tf.identity(inputs),
        )

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "stddev": self.stddev}


class GaussianDropout(Layer):
    """Multiplies by normal noise around 1 in training."""

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.rate = rate

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, in training with noise."""
        training = state.learning_phase() if training is None else training
        stddev = (self.rate / (1.0 - self.rate)) ** 0.5
        return smart_cond(
            training,
            lambda: inputs * tf.random_normal(tf.shape(inputs), mean=1.0, stddev=stddev),
            lambda: tf.identity(inputs),
        )

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "rate": self.rate}
