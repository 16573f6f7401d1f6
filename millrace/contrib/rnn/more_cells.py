"""Cells of papers: NAS, UGRNN, Intersection, SRU, Phased and convolutional LSTM; GRU in one op."""

from __future__ import annotations

import math
from typing import Any

import millrace as tf
from millrace.contrib.rnn.cells import Linear

RNNCell = tf.nn.rnn_cell.RNNCell
LSTMStateTuple = tf.nn.rnn_cell.LSTMStateTuple


def _depth(shape: Any) -> int:
    """The size of the last dimension.

    Raises:
      ValueError: It is not known.
    """
    sizes: list[Any] = tf.TensorShape(shape).as_list()
    if sizes[-1] is None:
        raise ValueError("Could not infer input size from inputs.get_shape()[-1]")
    return int(sizes[-1])


class _Units(RNNCell):
    """A cell whose state and output are `num_units` numbers."""

    _num_units: int

    @property
    def state_size(self) -> Any:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units


class NASCell(RNNCell):
    """The cell that neural architecture search found (Zoph and Le, 2016)."""

    def __init__(
        self, num_units: int, num_proj: int | None = None, use_bias: bool = False,
        reuse: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse, **kwargs)
        self._num_units, self._num_proj, self._use_bias = num_units, num_proj, use_bias

    @property
    def state_size(self) -> Any:
        """Sizes of c and of the output."""
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> Any:
        """The number of units, or of the projection."""
        return self._num_units if self._num_proj is None else self._num_proj

    def build(self, inputs_shape: Any) -> None:
        """Makes eight gates' kernels."""
        width = 8 * self._num_units
        self.recurrent_kernel = self.add_variable("recurrent_kernel", [self.output_size, width])
        self.kernel = self.add_variable("kernel", [_depth(inputs_shape), width])
        if self._use_bias:
            self.bias = self.add_variable("bias", [width], tf.zeros_initializer())
        if self._num_proj is not None:
            self.projection_weights = self.add_variable(
                "projection_weights", [self._num_units, self._num_proj]
            )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step: a tree of three layers over eight gates."""
        c, m = state
        from_state = tf.matmul(m, self.recurrent_kernel)
        if self._use_bias:
            from_state = tf.nn.bias_add(from_state, self.bias)
        pairs = list(zip(tf.split(tf.matmul(inputs, self.kernel), 8, 1),
                         tf.split(from_state, 8, 1), strict=True))  # fmt: skip
        functions = (tf.sigmoid, tf.nn.relu, tf.sigmoid, tf.nn.relu, tf.tanh, tf.sigmoid, tf.tanh,
                     tf.sigmoid)  # fmt: skip
        # The fourth gate multiplies where the others add.
        gates = [f(a * b if i == 3 else a + b)
                 for i, (f, (a, b)) in enumerate(zip(functions, pairs, strict=True))]  # fmt: skip
        left = tf.tanh(tf.tanh(gates[0] * gates[1]) + c) * tf.tanh(gates[2] + gates[3])
        right = tf.tanh(tf.tanh(gates[4] * gates[5]) + tf.sigmoid(gates[6] + gates[7]))
        output = tf.tanh(left * right)
        if self._num_proj is not None:
            output = tf.matmul(output, self.projection_weights)
        return output, LSTMStateTuple(left, output)


class UGRNNCell(_Units):
    """The update gate RNN (Collins, Sohl-Dickstein and Sussillo, 2016)."""

    def __init__(
        self, num_units: int, initializer: Any = None, forget_bias: float = 1.0,
        activation: Any = tf.tanh, reuse: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse)
        self._num_units, self._initializer = num_units, initializer
        self._forget_bias, self._activation = forget_bias, activation
        self._linear: Any = None

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        _depth(inputs.shape)
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            joined = tf.concat([inputs, state], 1)
            self._linear = self._linear or Linear(joined, 2 * self._num_units, True)
            gate, value = tf.split(self._linear(joined), 2, 1)
            gate = tf.sigmoid(gate + self._forget_bias)
            new = gate * state + (1.0 - gate) * self._activation(value)
        return new, new


class IntersectionRNNCell(_Units):
    """The intersection RNN of the same paper: it also gates its output against its input."""

    def __init__(
        self, num_units: int, num_in_proj: int | None = None, initializer: Any = None,
        forget_bias: float = 1.0, y_activation: Any = tf.nn.relu, reuse: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse)
        self._num_units, self._num_input_proj = num_units, num_in_proj
        self._initializer, self._forget_bias = initializer, forget_bias
        self._y_activation = y_activation
        self._project: Any = None
        self._linear: Any = None

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step.

        Raises:
          ValueError: The input has another width, and no projection was asked for.
        """
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            if _depth(inputs.shape) != self._num_units:
                if not self._num_input_proj:
                    raise ValueError(
                        "Must have input size == output size for Intersection RNN. To fix, "
                        "num_in_proj should be set to num_units at cell init."
                    )
                with tf.variable_scope("in_projection"):
                    self._project = self._project or Linear(inputs, self._num_units, True)
                    inputs = self._project(inputs)
            joined = tf.concat([inputs, state], 1)
            self._linear = self._linear or Linear(joined, 4 * self._num_units, True)
            keep_h, h, keep_y, y = tf.split(self._linear(joined), 4, 1)
            keep_h = tf.sigmoid(keep_h + self._forget_bias)
            keep_y = tf.sigmoid(keep_y + self._forget_bias)
            new_state = keep_h * state + (1.0 - keep_h) * tf.tanh(h)
            return keep_y * inputs + (1.0 - keep_y) * self._y_activation(y), new_state


class GRUBlockCell(_Units):
    """The GRU that TensorFlow has as one op; here XLA fuses it."""

    _NAMES = ("w_ru", "b_ru", "w_c", "b_c")

    def __init__(
        self, num_units: int | None = None, cell_size: int | None = None, reuse: Any = None,
        name: str = "gru_cell",
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse, name=name)
        if (num_units is None) == (cell_size is None):
            raise ValueError("Exactly one of num_units or cell_size must be provided.")
        self._num_units = int(num_units or cell_size or 0)

    def build(self, inputs_shape: Any) -> None:
        """Makes the kernels of gates and candidate."""
        units, depth = self._num_units, _depth(inputs_shape)
        gates, gates_bias, value, value_bias = self._NAMES
        self._w_ru = self.add_variable(gates, [depth + units, 2 * units])
        self._b_ru = self.add_variable(gates_bias, [2 * units], tf.constant_initializer(1.0))
        self._w_c = self.add_variable(value, [depth + units, units])
        self._b_c = self.add_variable(value_bias, [units], tf.constant_initializer(0.0))

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        gates = tf.sigmoid(tf.matmul(tf.concat([inputs, state], 1), self._w_ru) + self._b_ru)
        r, u = tf.split(gates, 2, 1)
        value = tf.tanh(tf.matmul(tf.concat([inputs, r * state], 1), self._w_c) + self._b_c)
        new = u * state + (1 - u) * value
        return new, new


class GRUBlockCellV2(GRUBlockCell):
    """`GRUBlockCell` with the names of variables that `GRUCell` has."""

    _NAMES = ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")


class SRUCell(_Units):
    """The simple recurrent unit (Lei and Zhang, 2017): its state takes part in no product."""

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None, name: str | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse, name=name, **kwargs)
        self._num_units, self._activation = num_units, activation or tf.tanh

    def build(self, inputs_shape: Any) -> None:
        """Makes one kernel for all."""
        self._kernel = self.add_variable("kernel", [_depth(inputs_shape), 4 * self._num_units])
        self._bias = self.add_variable("bias", [2 * self._num_units], tf.zeros_initializer())

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        value, forget, reset, through = tf.split(tf.matmul(inputs, self._kernel), 4, 1)
        gates = tf.sigmoid(tf.nn.bias_add(tf.concat([forget, reset], 1), self._bias))
        forget, reset = tf.split(gates, 2, 1)
        c = forget * state + (1.0 - forget) * value
        return reset * self._activation(c) + (1.0 - reset) * through, c


class PhasedLSTMCell(RNNCell):
    """An LSTM that opens now and then, for events with times (Neil and others, 2016).

    Its inputs are pairs of times [batch, 1] and values [batch, depth].
    """

    def __init__(
        self, num_units: int, use_peepholes: bool = False, leak: float = 0.001,
        ratio_on: float = 0.1, trainable_ratio_on: bool = True, period_init_min: float = 1.0,
        period_init_max: float = 1000.0, reuse: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse)
        self._num_units, self._use_peepholes, self._leak = num_units, use_peepholes, leak
        self._ratio_on, self._trainable_ratio_on = ratio_on, trainable_ratio_on
        self._periods = (math.log(period_init_min), math.log(period_init_max))
        self._linear: dict[str, Any] = {}

    @property
    def state_size(self) -> Any:
        """Sizes of c and h."""
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def _product(self, scope: str, values: list[Any], size: int) -> Any:
        with tf.variable_scope(scope):
            if scope not in self._linear:
                self._linear[scope] = Linear(values, size, True)
            return self._linear[scope](values)

    def _openness(self, time: Any) -> Any:
        """How far each unit is open at a time."""

        def log_uniform(shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> Any:
            return tf.exp(tf.random_uniform(shape, *self._periods, dtype=dtype))

        size = [self._num_units]
        period = tf.get_variable("period", size, initializer=log_uniform)
        phase = tf.get_variable(
            "phase", size, initializer=tf.random_uniform_initializer(0.0, period.initial_value)
        )
        on = tf.get_variable(
            "ratio_on", size, initializer=tf.constant_initializer(self._ratio_on),
            trainable=self._trainable_ratio_on,
        )  # fmt: skip
        length = tf.cast(period, time.dtype)
        shifted = time - tf.cast(phase, time.dtype)
        # Gradients flow through the remainder as if it were the number.
        wrapped = tf.stop_gradient(tf.mod(shifted, length) - shifted) + shifted
        cycle = tf.cast(wrapped / length, tf.float32)
        rising = 2 * cycle / on
        opened = tf.where(cycle < on, 2 - rising, self._leak * cycle)
        return tf.where(cycle < 0.5 * on, rising, opened)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        c, h = state
        time, x = inputs
        seen = [x, h, c] if self._use_peepholes else [x, h]
        gates = tf.sigmoid(self._product("mask_gates", seen, 2 * self._num_units))
        enter, forget = tf.split(gates, 2, 1)
        new_c = c * forget + enter * tf.tanh(self._product("new_input", [x, h], self._num_units))
        seen = [x, h, new_c] if self._use_peepholes else [x, h]
        new_h = tf.tanh(new_c) * tf.sigmoid(self._product("output_gate", seen, self._num_units))
        open_ = self._openness(time)
        new_c, new_h = open_ * new_c + (1 - open_) * c, open_ * new_h + (1 - open_) * h
        return new_h, LSTMStateTuple(new_c, new_h)


class ConvLSTMCell(RNNCell):
    """An LSTM over pictures (or lines, or volumes), with convolutions for products."""

    def __init__(
        self, conv_ndims: int, input_shape: Any, output_channels: int, kernel_shape: Any,
        use_bias: bool = True, skip_connection: bool = False, forget_bias: float = 1.0,
        initializers: Any = None, name: str = "conv_lstm_cell",
    ) -> None:  # fmt: skip
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
        self._conv_ndims, self._kernel_shape = conv_ndims, list(kernel_shape)
        self._channels, self._use_bias = output_channels, use_bias
        self._forget_bias, self._skip_connection = forget_bias, skip_connection
        self._place, self._depth_in = list(input_shape[:-1]), input_shape[-1]

    @property
    def state_size(self) -> Any:
        """Shapes of c and of the output."""
        shape = tf.TensorShape([*self._place, self._channels])
        return LSTMStateTuple(shape, shape)

    @property
    def output_size(self) -> Any:
        """The shape of the output."""
        more = self._depth_in if self._skip_connection else 0
        return tf.TensorShape([*self._place, self._channels + more])

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        cell, hidden = state
        joined = tf.concat([inputs, hidden], -1)
        width = 4 * self._channels
        kernel = tf.get_variable(
            "kernel", [*self._kernel_shape, joined.shape.as_list()[-1], width], joined.dtype
        )
        gates = tf.nn.convolution(joined, kernel, "SAME")
        if self._use_bias:
            gates += tf.get_variable("biases", [width], joined.dtype, tf.zeros_initializer())
        enter, value, forget, leave = tf.split(gates, 4, self._conv_ndims + 1)
        new = tf.sigmoid(forget + self._forget_bias) * cell + tf.sigmoid(enter) * tf.tanh(value)
        output = tf.tanh(new) * tf.sigmoid(leave)
        if self._skip_connection:
            output = tf.concat([output, inputs], -1)
        return output, LSTMStateTuple(new, output)


class Conv1DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` over lines."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` over pictures."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` over volumes."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=3, name=name, **kwargs)
