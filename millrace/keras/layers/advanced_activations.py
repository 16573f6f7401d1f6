"""Activations that are layers of their own: with a slope, learned or given."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras import activations, constraints, initializers, regularizers
from millrace.keras.engine.base_layer import Layer


class _Pointwise(Layer):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The input's."""
        return tf.TensorShape(input_shape)


class LeakyReLU(_Pointwise):
    """A rectifier with a slope below 0."""

    def __init__(self, alpha: float = 0.3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = float(alpha)

    def call(self, inputs: Any) -> Any:
        """The rectified inputs."""
        return tf.nn.leaky_relu(inputs, alpha=self.alpha)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "alpha": self.alpha}


class PReLU(_Pointwise):
    """A rectifier whose slope below 0 is learned."""

    def __init__(
        self,
        alpha_initializer: Any = "zeros",
        alpha_regularizer: Any = None,
        alpha_constraint: Any = None,
        shared_axes: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.alpha_initializer = initializers.get(alpha_initializer)
        self.alpha_regularizer = regularizers.get(alpha_regularizer)
        self.alpha_constraint = constraints.get(alpha_constraint)
        self.shared_axes = None if shared_axes is None else list(tf.nest.flatten(shared_axes))

    def build(self, input_shape: Any) -> None:
        """Makes the slopes."""
        shape = tf.TensorShape(input_shape).as_list()[1:]
        for axis in self.shared_axes or []:
            shape[axis - 1] = 1
        self.alpha = self.add_weight(
            shape=shape,
            name="alpha",
            initializer=self.alpha_initializer,
            regularizer=self.alpha_regularizer,
            constraint=self.alpha_constraint,
        )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The rectified inputs."""
        return tf.nn.relu(inputs) - self.alpha * tf.nn.relu(-inputs)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = {
            "alpha_initializer": initializers.serialize(self.alpha_initializer),
            "alpha_regularizer": regularizers.serialize(self.alpha_regularizer),
            "alpha_constraint": constraints.serialize(self.alpha_constraint),
            "shared_axes": self.shared_axes,
        }
        return {**super().get_config(), **config}


class ELU(_Pointwise):
    """The exponential linear unit."""

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = float(alpha)

    def call(self, inputs: Any) -> Any:
        """The activation."""
        return activations.elu(inputs, self.alpha)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "alpha": self.alpha}


class ThresholdedReLU(_Pointwise):
    """The input where it is above a threshold, else 0."""

    def __init__(self, theta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.theta = float(theta)

    def call(self, inputs: Any) -> Any:
        """The activation."""
        return inputs * tf.cast(tf.greater(inputs, self.theta), inputs.dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "theta": self.theta}


class Softmax(_Pointwise):
    """Softmax along an axis."""

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any) -> Any:
        """The activation."""
        return activations.softmax(inputs, axis=self.axis)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "axis": self.axis}


class ReLU(_Pointwise):
    """The rectifier, with a cap, a slope and a threshold."""

    def __init__(
        self,
        max_value: float | None = None,
        negative_slope: float = 0,
        threshold: float = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if max_value is not None and max_value < 0:
            raise ValueError(f"max_value of Relu layer cannot be negative value: {max_value}")
        if negative_slope < 0:
            raise ValueError(
                f"negative_slope of Relu layer cannot be negative value: {negative_slope}"
            )
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold

    def call(self, inputs: Any) -> Any:
        """The activation."""
        return activations.relu(
            inputs, alpha=self.negative_slope, max_value=self.max_value, threshold=self.threshold
        )

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = {
            "max_value": self.max_value,
            "negative_slope": self.negative_slope,
            "threshold": self.threshold,
        }
        return {**super().get_config(), **config}
