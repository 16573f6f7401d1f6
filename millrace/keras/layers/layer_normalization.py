"""Layer normalization: moments of each example over some of its axes."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras import constraints, initializers, regularizers
from millrace.keras.engine.base_layer import Layer


class LayerNormalization(Layer):
    """Normalizes every example by itself (Ba et al., 2016)."""

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, trainable=trainable, **kwargs)
        if not isinstance(axis, int | list | tuple):
            raise ValueError(f"Expected an int or a list/tuple of ints for `axis`, but got: {axis}")
        self.axis: Any = list(axis) if isinstance(axis, list | tuple) else axis
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.beta_initializer = initializers.get(beta_initializer)
        self.gamma_initializer = initializers.get(gamma_initializer)
        self.beta_regularizer = regularizers.get(beta_regularizer)
        self.gamma_regularizer = regularizers.get(gamma_regularizer)
        self.beta_constraint = constraints.get(beta_constraint)
        self.gamma_constraint = constraints.get(gamma_constraint)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Makes gamma and beta.

        Raises:
          ValueError: An axis does not exist, twice, or has no known size.
        """
        shape = tf.TensorShape(input_shape)
        if shape.ndims is None:
            raise ValueError(f"Input shape {shape} has undefined rank.")
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        axes = [axis + shape.ndims if axis < 0 else axis for axis in axes]
        for axis in axes:
            if not 0 <= axis < shape.ndims:
                raise ValueError(f"Invalid axis: {axis}")
        if len(axes) != len(set(axes)):
            raise ValueError(f"Duplicate axis: {tuple(axes)}")
        self.axis = axes
        param_shape = [shape.as_list()[axis] for axis in axes]
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                name="gamma",
                shape=param_shape,
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
            )
        if self.center:
            self.beta = self.add_weight(
                name="beta",
                shape=param_shape,
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The normalized inputs."""
        shape = inputs.shape
        rank = shape.ndims
        wide = [1] * rank
        for axis in self.axis:
            wide[axis] = shape.as_list()[axis]

        def broadcast(value: Any) -> Any:
            if value is None or value.shape.ndims == rank or self.axis == [rank - 1]:
                return value
            return tf.reshape(value, wide)

        mean, variance = tf.nn.moments(inputs, self.axis, keep_dims=True)
        outputs = tf.nn.batch_normalization(
            inputs,
            mean,
            variance,
            offset=broadcast(self.beta),
            scale=broadcast(self.gamma),
            variance_epsilon=self.epsilon,
        )
        outputs.set_shape(shape)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The input's."""
        return tf.TensorShape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = {
            "axis": self.axis,
            "epsilon": self.epsilon,
            "center": self.center,
            "scale": self.scale,
            "beta_initializer": initializers.serialize(self.beta_initializer),
            "gamma_initializer": initializers.serialize(self.gamma_initializer),
            "beta_regularizer": regularizers.serialize(self.beta_regularizer),
            "gamma_regularizer": regularizers.serialize(self.gamma_regularizer),
            "beta_constraint": constraints.serialize(self.beta_constraint),
            "gamma_constraint": constraints.serialize(self.gamma_constraint),
        }
        return {**super().get_config(), **config}
