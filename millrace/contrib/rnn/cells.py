"""Cells that `tf.nn.rnn_cell` lacks: normalized, fused in TensorFlow, with attention."""

from __future__ import annotations

from typing import Any

import millrace as tf

RNNCell = tf.nn.rnn_cell.RNNCell
LSTMStateTuple = tf.nn.rnn_cell.LSTMStateTuple


class Linear:
    """``[args…] · kernel + bias``, with the variables of the scope that it was made in."""

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        values = args if isinstance(args, list | tuple) else [args]
        if not values:
            raise ValueError("`args` must be specified")
        self._build_bias = build_bias
        self._is_sequence = isinstance(args, list | tuple)
        depth = 0
        for value in values:
            shape = value.shape
            if shape.ndims != 2 or shape.as_list()[1] is None:
                raise ValueError(f"linear expects shape[1] to be provided for shape {shape}")
            depth += shape.as_list()[1]
        kind = values[0].dtype.base_dtype
        self._weights = tf.get_variable(
            "kernel", [depth, output_size], dtype=kind, initializer=kernel_initializer
        )
        if build_bias:
            self._biases = tf.get_variable(
                "bias", [output_size], dtype=kind,
                initializer=tf.constant_initializer(0.0, dtype=kind)
                if bias_initializer is None else bias_initializer,
            )  # fmt: skip

    def __call__(self, args: Any) -> Any:
        """The product."""
        values = list(args) if self._is_sequence else [args]
        joined = values[0] if len(values) == 1 else tf.concat(values, 1)
        result = tf.matmul(joined, self._weights)
        return tf.nn.bias_add(result, self._biases) if self._build_bias else result


class LSTMBlockCell(RNNCell):
    """The LSTM that TensorFlow has as one op; here XLA fuses it.

    Its kernel has the order of gates input, candidate, forget, output.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: Any = None,
        name: str = "lstm_cell",
    ) -> None:
        super().__init__(_reuse=reuse, dtype=dtype, name=name)
        self._num_units, self._forget_bias = num_units, forget_bias
        self._cell_clip = cell_clip
        self._use_peephole = use_peephole

    @property
    def state_size(self) -> Any:
        """Sizes of c and h."""
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Makes kernel and bias, and peepholes if asked."""
        sizes: list[Any] = tf.TensorShape(inputs_shape).as_list()
        depth, units = sizes[-1], self._num_units
        self._kernel = self.add_variable("kernel", [depth + units, 4 * units])
        self._bias = self.add_variable("bias", [4 * units], tf.zeros_initializer())
        if self._use_peephole:
            self._w_i, self._w_f, self._w_o = (
                self.add_variable(f"w_{gate}_diag", [units]) for gate in "ifo"
            )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        c, h = state
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = tf.split(gates, 4, axis=1)
        if self._use_peephole:
            i, f = i + self._w_i * c, f + self._w_f * c
        new_c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
        if self._cell_clip is not None and self._cell_clip > 0:
            new_c = tf.clip_by_value(new_c, -self._cell_clip, self._cell_clip)
        if self._use_peephole:
            o = o + self._w_o * new_c
        new_h = tf.sigmoid(o) * tf.tanh(new_c)
        return new_h, LSTMStateTuple(new_c, new_h)


class LSTMBlockFusedCell:
    """An LSTM over a whole sequence [time, batch, depth]."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        self._cell = LSTMBlockCell(
            num_units, forget_bias, cell_clip, use_peephole, dtype, reuse, name
        )

    @property
    def num_units(self) -> int:
        """The number of units."""
        return self._cell.output_size

    @property
    def variables(self) -> list[Any]:
        """The variables of the cell."""
        return list(self._cell.variables)

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """(outputs at all times, last state)."""
        with tf.variable_scope(scope, default_name=self._cell.name) as captured:
            return tf.nn.dynamic_rnn(
                _InScope(self._cell, captured), inputs, sequence_length=sequence_length,
                initial_state=initial_state, dtype=dtype or inputs.dtype, time_major=True,
            )  # fmt: skip


class _InScope(RNNCell):
    """A cell whose variables are those of one scope, whatever loop it runs in."""

    def __init__(self, cell: Any, scope: Any) -> None:
        super().__init__()
        self._inner, self._fixed = cell, scope

    @property
    def state_size(self) -> Any:
        """The inner cell's."""
        return self._inner.state_size

    @property
    def output_size(self) -> Any:
        """The inner cell's."""
        return self._inner.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The inner cell's."""
        return self._inner.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """One step of the inner cell."""
        found: tuple[Any, Any] = self._inner(inputs, state, scope=self._fixed)
        return found


class LayerNormBasicLSTMCell(RNNCell):
    """An LSTM whose gates are normalized, with recurrent dropout (Ba et al.; Semeniuta et al.)."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Any = tf.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units, self._forget_bias, self._activation = num_units, forget_bias, activation
        self._layer_norm = layer_norm
        self._gain, self._shift = norm_gain, norm_shift
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

    @property
    def state_size(self) -> Any:
        """Sizes of c and h."""
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def _norm(self, value: Any, scope: str) -> Any:
        with tf.variable_scope(scope):
            gain = tf.get_variable(
                "gamma", [self._num_units], initializer=tf.constant_initializer(self._gain)
            )
            shift = tf.get_variable(
                "beta", [self._num_units], initializer=tf.constant_initializer(self._shift)
            )
        mean, variance = tf.nn.moments(value, [1], keep_dims=True)
        return tf.nn.batch_normalization(value, mean, variance, shift, gain, 1e-12)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        c, h = state
        joined = tf.concat([inputs, h], 1)
        kernel = tf.get_variable("kernel", [joined.shape.as_list()[-1], 4 * self._num_units])
        gates = tf.matmul(joined, kernel)
        if not self._layer_norm:
            gates = tf.nn.bias_add(gates, tf.get_variable("bias", [4 * self._num_units]))
        i, j, f, o = tf.split(gates, 4, axis=1)
        if self._layer_norm:
            i, j = self._norm(i, "input"), self._norm(j, "transform")
            f, o = self._norm(f, "forget"), self._norm(o, "output")
        candidate = self._activation(j)
        if not (isinstance(self._keep_prob, float | int) and self._keep_prob >= 1):
            candidate = tf.nn.dropout(candidate, keep_prob=self._keep_prob, seed=self._seed)
        new_c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * candidate
        if self._layer_norm:
            new_c = self._norm(new_c, "state")
        new_h = self._activation(new_c) * tf.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


class InputProjectionWrapper(RNNCell):
    """Projects the inputs of a cell."""

    def __init__(
        self, cell: Any, num_proj: int, activation: Any = None, input_size: Any = None,
        reuse: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse)
        self._cell, self._num_proj, self._activation = cell, num_proj, activation

    @property
    def state_size(self) -> Any:
        """The cell's."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """The cell's."""
        return self._cell.output_size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        projected = Linear([inputs], self._num_proj, True)([inputs])
        if self._activation:
            projected = self._activation(projected)
        found: tuple[Any, Any] = self._cell(projected, state)
        return found


class OutputProjectionWrapper(InputProjectionWrapper):
    """Projects the outputs of a cell."""

    def __init__(
        self, cell: Any, output_size: int, activation: Any = None, reuse: Any = None
    ) -> None:
        super().__init__(cell, output_size, activation, reuse=reuse)

    @property
    def output_size(self) -> Any:
        """The size of the projection."""
        return self._num_proj

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        output, new_state = self._cell(inputs, state)
        projected = Linear([output], self._num_proj, True)([output])
        return (self._activation(projected) if self._activation else projected), new_state


class EmbeddingWrapper(RNNCell):
    """Looks the inputs up in an embedding first."""

    def __init__(
        self, cell: Any, embedding_classes: int, embedding_size: int, initializer: Any = None,
        reuse: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError("Both embedding_classes and embedding_size must be > 0.")
        self._cell, self._shape = cell, [embedding_classes, embedding_size]
        self._initializer = initializer

    @property
    def state_size(self) -> Any:
        """The cell's."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """The cell's."""
        return self._cell.output_size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        first = self._initializer or tf.random_uniform_initializer(-(3**0.5), 3**0.5)
        kind = tf.nest.flatten(state)[0].dtype
        table = tf.get_variable("embedding", self._shape, initializer=first, dtype=kind)
        rows = tf.nn.embedding_lookup(table, tf.reshape(inputs, [-1]))
        found: tuple[Any, Any] = self._cell(rows, state)
        return found
