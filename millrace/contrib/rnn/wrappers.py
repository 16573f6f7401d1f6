"""Cells around cells: attention to the last states, highways; and loops in one call."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib.rnn.cells import Linear
from millrace.core import nest

RNNCell = tf.nn.rnn_cell.RNNCell


class AttentionCellWrapper(RNNCell):
    """Lets a cell attend to its last `attn_length` outputs (Bahdanau and others, 2014)."""

    def __init__(
        self, cell: Any, attn_length: int, attn_size: int | None = None,
        attn_vec_size: int | None = None, input_size: int | None = None,
        state_is_tuple: bool = True, reuse: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse)
        if nest.is_nested(cell.state_size) and not state_is_tuple:
            raise ValueError(
                "Cell returns tuple of states, but the flag state_is_tuple is not set. State size "
                f"is: {cell.state_size}"
            )
        if attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        self._cell, self._state_is_tuple, self._length = cell, state_is_tuple, attn_length
        self._size = cell.output_size if attn_size is None else attn_size
        self._vec_size = self._size if attn_vec_size is None else attn_vec_size
        self._input_size = input_size
        self._linear: dict[str, Any] = {}

    @property
    def state_size(self) -> Any:
        """Sizes of the cell's state, of what was seen, and of the outputs that it looks at."""
        sizes = (self._cell.state_size, self._size, self._size * self._length)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """The size of what attention sees."""
        return self._size

    def _product(self, name: str, values: Any, size: int) -> Any:
        if name not in self._linear:
            self._linear[name] = Linear(values, size, True)
        return self._linear[name](values)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        if self._state_is_tuple:
            state, seen, past = state
        else:
            sizes = [self._cell.state_size, self._size, self._size * self._length]
            state, seen, past = tf.split(state, sizes, 1)
        past = tf.reshape(past, [-1, self._length, self._size])
        width = self._input_size or inputs.shape.as_list()[1]
        output, state = self._cell(self._product("inputs", [inputs, seen], width), state)
        query = tf.concat(nest.flatten(state), 1) if self._state_is_tuple else state
        seen, past = self._attend(query, past)
        with tf.variable_scope("attn_output_projection"):
            output = self._product("output", [output, seen], self._size)
        past = tf.concat([past, tf.expand_dims(output, 1)], 1)
        past = tf.reshape(past, [-1, self._length * self._size])
        parts = (state, seen, past)
        return output, parts if self._state_is_tuple else tf.concat(list(parts), 1)

    def _attend(self, query: Any, past: Any) -> tuple[Any, Any]:
        with tf.variable_scope("attention"):
            kernel = tf.get_variable("attn_w", [1, 1, self._size, self._vec_size])
            score = tf.get_variable("attn_v", [self._vec_size])
            hidden = tf.reshape(past, [-1, self._length, 1, self._size])
            features = tf.nn.conv2d(hidden, kernel, [1, 1, 1, 1], "SAME")
            wanted = self._product("query", query, self._vec_size)
            match = tf.tanh(features + tf.reshape(wanted, [-1, 1, 1, self._vec_size]))
            weights = tf.nn.softmax(tf.reduce_sum(score * match, [2, 3]))
            mean = tf.reduce_sum(tf.reshape(weights, [-1, self._length, 1, 1]) * hidden, [1, 2])
            return tf.reshape(mean, [-1, self._size]), past[:, 1:]


class HighwayWrapper(RNNCell):
    """Lets inputs pass beside the cell, as far as a gate allows."""

    def __init__(
        self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0
    ) -> None:
        super().__init__()
        self._cell, self._coupled = cell, couple_carry_transform_gates
        self._carry_bias_init = carry_bias_init

    @property
    def state_size(self) -> Any:
        """The cell's."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """The cell's."""
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The cell's."""
        with tf.name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            return self._cell.zero_state(batch_size, dtype)

    def _gate(self, name: str, inputs: Any, bias: float) -> Any:
        size = inputs.shape.as_list()[1]
        weights = tf.get_variable(f"{name}_w", [size, size])
        biases = tf.get_variable(f"{name}_b", [size], initializer=tf.constant_initializer(bias))
        return tf.sigmoid(tf.nn.xw_plus_b(inputs, weights, biases))

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """One step of the cell, and the highway."""
        outputs, state = self._cell(inputs, state, scope=scope)
        nest.assert_same_structure(inputs, outputs)

        def mix(given: Any, made: Any) -> Any:
            given.shape.assert_is_compatible_with(made.shape)
            carry = self._gate("carry", given, self._carry_bias_init)
            transform = 1 - carry
            if not self._coupled:
                transform = self._gate("transform", given, -self._carry_bias_init)
            return given * carry + made * transform

        return nest.map_structure(mix, inputs, outputs), state


class FusedRNNCellAdaptor:
    """A cell as a function of a whole sequence [time, batch, depth], or of a list of steps."""

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell, self._use_dynamic_rnn = cell, use_dynamic_rnn

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None,
        sequence_length: Any = None, scope: Any = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Outputs of all steps, and the last state."""
        as_list = isinstance(inputs, list)
        options = {"initial_state": initial_state, "dtype": dtype, "scope": scope}
        if self._use_dynamic_rnn:
            joined = tf.stack(inputs) if as_list else inputs
            outputs, state = tf.nn.dynamic_rnn(
                self._cell, joined, sequence_length, time_major=True, **options
            )
            return (tf.unstack(outputs) if as_list else outputs), state
        steps = inputs if as_list else tf.unstack(inputs)
        outputs, state = tf.nn.static_rnn(
            self._cell, steps, sequence_length=sequence_length, **options
        )
        return (outputs if as_list else tf.stack(outputs)), state


class TimeReversedFusedRNN:
    """A fused cell that runs backwards in time."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def _reverse(self, steps: Any, lengths: Any) -> Any:
        if isinstance(steps, list):
            return list(reversed(steps))
        if lengths is None:
            return tf.reverse(steps, [0])
        return tf.reverse_sequence(steps, lengths, seq_axis=0, batch_axis=1)

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None,
        sequence_length: Any = None, scope: Any = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Outputs of all steps, in the order of the inputs, and the last state."""
        outputs, state = self._cell(
            self._reverse(inputs, sequence_length), initial_state=initial_state, dtype=dtype,
            sequence_length=sequence_length, scope=scope,
        )  # fmt: skip
        return nest.map_structure(lambda o: self._reverse(o, sequence_length), outputs), state
