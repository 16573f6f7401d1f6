"""Layers that run a cell over time: RNN, SimpleRNN, GRU, LSTM."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras.engine import state
from millrace.keras.engine.backend_rnn import run_over_time
from millrace.keras.engine.base_layer import Layer
from millrace.keras.engine.input_spec import InputSpec
from millrace.keras.layers import recurrent_cells as cells
from millrace.ops.state.variable_changes import assign


class RNN(Layer):
    """Runs a cell over [batch, time, features]."""

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        if isinstance(cell, list | tuple):
            cell = cells.StackedRNNCells(cell)
        super().__init__(**kwargs)
        self.cell = cell
        self.return_sequences, self.return_state = return_sequences, return_state
        self.go_backwards, self.stateful, self.unroll = go_backwards, stateful, unroll
        self.time_major = time_major
        self.supports_masking = True
        self.input_spec = InputSpec(ndim=3)
        self._states: Any = None

    def build(self, input_shape: Any) -> None:
        """Builds the cell for one time step, in this layer's scope."""
        shape = input_shape[0] if isinstance(input_shape, list) else input_shape
        sizes = tf.TensorShape(shape).as_list()
        step = [sizes[1], sizes[2]] if self.time_major else [sizes[0], sizes[2]]
        if not self.cell.built:
            self.cell._dtype = self.cell._dtype or self.dtype
            self.cell.build(tf.TensorShape(step))
            self.cell.built = True
        if self.stateful:
            if sizes[0] is None:
                raise ValueError(
                    "If a RNN is stateful, it needs to know its batch size: give "
                    "batch_input_shape to the first layer."
                )
            self._states = [
                self.add_weight(
                    f"state_{i}", shape=[sizes[0], size], initializer="zeros", trainable=False
                )
                for i, size in enumerate(tf.nest.flatten(self.cell.state_size))
            ]
        self.built = True

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Takes an initial state as a keyword, or as the inputs after the first."""
        if isinstance(inputs, list | tuple) and len(inputs) > 1:
            kwargs["initial_state"] = list(inputs[1:])
            inputs = inputs[0]
        return super().__call__(inputs, *args, **kwargs)

    def get_initial_state(self, inputs: Any) -> Any:
        """Zeros for the batch."""
        batch = tf.shape(inputs)[1 if self.time_major else 0]
        static = inputs.shape.as_list()[1 if self.time_major else 0]

        def zeros(size: Any) -> Any:
            made = tf.zeros([batch, size], inputs.dtype)
            made.set_shape([static, size])
            return made

        return tf.nest.map_structure(zeros, self._size())

    def _size(self) -> Any:
        size = self.cell.state_size
        return list(size) if isinstance(size, list | tuple) else [size]

    def call(
        self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None
    ) -> Any:
        """The last output, or all; with the states if asked."""
        if initial_state is not None:
            initial = list(initial_state) if isinstance(initial_state, list | tuple) else [
                initial_state
            ]  # fmt: skip
        elif self._states is not None:
            initial = tf.nest.pack_sequence_as(self._size(), [tf.identity(s) for s in self._states])
        else:
            initial = self.get_initial_state(inputs)
        values = inputs if self.time_major else tf.transpose(inputs, [1, 0, 2])
        masks = None
        if mask is not None:
            mask = mask[0] if isinstance(mask, list) else mask
            masks = mask if self.time_major else tf.transpose(mask, [1, 0])
        if self.go_backwards:
            values = tf.reverse(values, [0])
            masks = None if masks is None else tf.reverse(masks, [0])
        options = {"training": training} if self.cell._takes("training") else {}

        def step(value: Any, states: Any) -> tuple[Any, Any]:
            output, new = self.cell.call(value, states, **options)
            new = list(new) if isinstance(new, list | tuple) else [new]
            return output, tf.nest.pack_sequence_as(initial, tf.nest.flatten(new))

        outputs, last, states = run_over_time(step, values, masks, initial, self.unroll)
        if self._states is not None:
            self.add_update(
                [
                    assign(kept, new)
                    for kept, new in zip(self._states, tf.nest.flatten(states), strict=True)
                ],
                inputs=True,
            )
        result = last
        if self.return_sequences:
            result = outputs if self.time_major else tf.transpose(outputs, [1, 0, 2])
        if self.return_state:
            return [result, *tf.nest.flatten(states)]
        return result

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask, if all outputs are returned."""
        mask = mask[0] if isinstance(mask, list) else mask
        found = mask if self.return_sequences else None
        if self.return_state:
            return [found] + [None] * len(tf.nest.flatten(self.cell.state_size))
        return found

    def reset_states(self, states: Any = None) -> None:
        """Sets the states to zero.

        Raises:
          AttributeError: The layer is not stateful.
        """
        if self._states is None:
            raise AttributeError("Layer must be stateful.")
        session = state.get_session()
        values = [None] * len(self._states) if states is None else tf.nest.flatten(states)
        for kept, value in zip(self._states, values, strict=True):
            kept.load(0 * session.run(kept) if value is None else value, session)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = {
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
            "go_backwards": self.go_backwards,
            "stateful": self.stateful,
            "unroll": self.unroll,
        }
        return {**super().get_config(), **config}


class _OfCell(RNN):
    """An RNN of one kind of cell, with the cell's arguments."""

    cell_class: Any = None

    def __init__(self, units: int, *args: Any, **kwargs: Any) -> None:
        own = {
            name: kwargs.pop(name)
            for name in (
                "return_sequences", "return_state", "go_backwards", "stateful", "unroll",
                "time_major", "name", "input_shape", "batch_input_shape", "input_dim",
                "batch_size", "activity_regularizer", "trainable", "weights",
            )
            if name in kwargs
        }  # fmt: skip
        if "input_dim" in own and "input_shape" not in own:
            own["input_shape"] = (kwargs.pop("input_length", None), own.pop("input_dim"))
        dtype = kwargs.get("dtype")
        super().__init__(type(self).cell_class(units, *args, **kwargs), dtype=dtype, **own)

    @property
    def units(self) -> int:
        """The number of units."""
        return int(self.cell.units)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), **cells.recurrent_config(self.cell)}


class SimpleRNN(_OfCell):
    """A recurrent layer without gates."""

    cell_class = cells.SimpleRNNCell


class GRU(_OfCell):
    """Gated recurrent units."""

    cell_class = cells.GRUCell


class LSTM(_OfCell):
    """Long short-term memory."""

    cell_class = cells.LSTMCell
