"""Keras's recurrent cells: one step each, with the kernel and the recurrent kernel apart."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras import activations, constraints, initializers, regularizers
from millrace.keras.engine import state
from millrace.keras.engine.base_layer import Layer
from millrace.keras.engine.naming import smart_cond


class _Cell(Layer):
    """What the cells share: kernels, biases, dropout of inputs and states."""

    gates = 1
    default_recurrent_activation: Any = None

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        kwargs.pop("implementation", None)
        super().__init__(**kwargs)
        self.units = units
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.recurrent_initializer = initializers.get(recurrent_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.recurrent_regularizer = regularizers.get(recurrent_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.recurrent_constraint = constraints.get(recurrent_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.dropout = min(1.0, max(0.0, dropout))
        self.recurrent_dropout = min(1.0, max(0.0, recurrent_dropout))

    @property
    def state_size(self) -> Any:
        """The sizes of the state."""
        return self.units

    @property
    def output_size(self) -> Any:
        """The size of the output."""
        return self.units

    def _bias_shape(self) -> Any:
        return (self.units * self.gates,)

    def _first_bias(self) -> Any:
        return self.bias_initializer

    def build(self, input_shape: Any) -> None:
        """Makes the kernels and the bias."""
        depth = tf.TensorShape(input_shape).as_list()[-1]
        self.kernel = self.add_weight(
            shape=(depth, self.units * self.gates), name="kernel",
            initializer=self.kernel_initializer, regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )  # fmt: skip
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, self.units * self.gates), name="recurrent_kernel",
            initializer=self.recurrent_initializer, regularizer=self.recurrent_regularizer,
            constraint=self.recurrent_constraint,
        )  # fmt: skip
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                shape=self._bias_shape(), name="bias", initializer=self._first_bias(),
                regularizer=self.bias_regularizer, constraint=self.bias_constraint,
            )  # fmt: skip
        self.built = True

    def _dropped(self, value: Any, rate: float, training: Any) -> Any:
        if not rate:
            return value
        training = state.learning_phase() if training is None else training
        return smart_cond(
            training, lambda: tf.nn.dropout(value, rate=rate), lambda: tf.identity(value)
        )

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Any:
        """Zeros."""
        if inputs is not None:
            batch_size, dtype = tf.shape(inputs)[0], inputs.dtype
        return tf.nest.map_structure(
            lambda size: tf.zeros([batch_size, size], dtype), self.state_size
        )

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), **recurrent_config(self)}


def recurrent_config(cell: Any) -> dict[str, Any]:
    """The arguments that a cell was made with, without those of every layer."""
    config: dict[str, Any] = {
        "units": cell.units,
        "activation": activations.serialize(cell.activation),
        "use_bias": cell.use_bias,
        "dropout": cell.dropout,
        "recurrent_dropout": cell.recurrent_dropout,
    }
    for part in ("kernel", "recurrent", "bias"):
        config[f"{part}_initializer"] = initializers.serialize(getattr(cell, f"{part}_initializer"))
        config[f"{part}_regularizer"] = regularizers.serialize(getattr(cell, f"{part}_regularizer"))
        config[f"{part}_constraint"] = constraints.serialize(getattr(cell, f"{part}_constraint"))
    for name in ("recurrent_activation",):
        if hasattr(cell, name):
            config[name] = activations.serialize(getattr(cell, name))
    for name in ("unit_forget_bias", "reset_after"):
        if hasattr(cell, name):
            config[name] = getattr(cell, name)
    return config


class SimpleRNNCell(_Cell):
    """``h' = activation(x·kernel + h·recurrent_kernel + bias)``."""

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """One step."""
        (previous,) = states if isinstance(states, list | tuple) else (states,)
        h = tf.matmul(self._dropped(inputs, self.dropout, training), self.kernel)
        if self.bias is not None:
            h = tf.nn.bias_add(h, self.bias)
        previous = self._dropped(previous, self.recurrent_dropout, training)
        output = h + tf.matmul(previous, self.recurrent_kernel)
        output = self.activation(output)
        return output, [output]


class GRUCell(_Cell):
    """Gated recurrent unit; gates in the order update, reset, candidate."""

    gates = 3

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        use_bias: bool = True,
        reset_after: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, activation, use_bias, **kwargs)
        self.recurrent_activation = activations.get(recurrent_activation)
        self.reset_after = reset_after

    def _bias_shape(self) -> Any:
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,)

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """One step."""
        (h,) = states if isinstance(states, list | tuple) else (states,)
        x = tf.matmul(self._dropped(inputs, self.dropout, training), self.kernel)
        recurrent_bias = None
        if self.bias is not None:
            if self.reset_after:
                bias, recurrent_bias = tf.unstack(self.bias)
                x = tf.nn.bias_add(x, bias)
            else:
                x = tf.nn.bias_add(x, self.bias)
        x_z, x_r, x_h = tf.split(x, 3, axis=-1)
        before = self._dropped(h, self.recurrent_dropout, training)
        if self.reset_after:
            inner = tf.matmul(before, self.recurrent_kernel)
            if recurrent_bias is not None:
                inner = tf.nn.bias_add(inner, recurrent_bias)
            i_z, i_r, i_h = tf.split(inner, 3, axis=-1)
            z = self.recurrent_activation(x_z + i_z)
            r = self.recurrent_activation(x_r + i_r)
            candidate = self.activation(x_h + r * i_h)
        else:
            kernel_zr = self.recurrent_kernel[:, : 2 * self.units]
            i_z, i_r = tf.split(tf.matmul(before, kernel_zr), 2, axis=-1)
            z = self.recurrent_activation(x_z + i_z)
            r = self.recurrent_activation(x_r + i_r)
            inner = tf.matmul(r * before, self.recurrent_kernel[:, 2 * self.units :])
            candidate = self.activation(x_h + inner)
        output = z * h + (1 - z) * candidate
        return output, [output]


class LSTMCell(_Cell):
    """Long short-term memory; gates in the order input, forget, candidate, output."""

    gates = 4

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        use_bias: bool = True,
        unit_forget_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, activation, use_bias, **kwargs)
        self.recurrent_activation = activations.get(recurrent_activation)
        self.unit_forget_bias = unit_forget_bias

    @property
    def state_size(self) -> Any:
        """The sizes of h and c."""
        return [self.units, self.units]

    def _first_bias(self) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer

        def initialize(shape: Any, dtype: Any = None, **_: Any) -> Any:
            units = self.units
            first = self.bias_initializer
            return tf.concat(
                [
                    first([units], dtype=dtype),
                    tf.ones([units], dtype),
                    first([units * 2], dtype=dtype),
                ],
                axis=0,
            )

        return initialize

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """One step."""
        h, c = states
        z = tf.matmul(self._dropped(inputs, self.dropout, training), self.kernel)
        before = self._dropped(h, self.recurrent_dropout, training)
        z = z + tf.matmul(before, self.recurrent_kernel)
        if self.bias is not None:
            z = tf.nn.bias_add(z, self.bias)
        i, f, candidate, o = tf.split(z, 4, axis=1)
        gate = self.recurrent_activation
        new_c = gate(f) * c + gate(i) * self.activation(candidate)
        new_h = gate(o) * self.activation(new_c)
        return new_h, [new_h, new_c]


class StackedRNNCells(Layer):
    """Cells one upon the other."""

    def __init__(self, cells: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cells = list(cells)

    @property
    def state_size(self) -> Any:
        """The sizes of all states."""
        return tuple(cell.state_size for cell in self.cells)

    @property
    def output_size(self) -> Any:
        """The size of the last cell's output."""
        return self.cells[-1].output_size

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """One step through all cells."""
        new = []
        for cell, each in zip(self.cells, states, strict=True):
            each = list(each) if isinstance(each, list | tuple) else [each]
            inputs, after = cell(inputs, each, training=training)
            new.append(after if isinstance(cell.state_size, list | tuple) else after[0])
        return inputs, tuple(new)
