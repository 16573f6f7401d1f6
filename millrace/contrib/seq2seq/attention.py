"""Attention over a memory: scores, and the wrapper that gives a cell attention.

Variables are called as TensorFlow 1.15 calls them: ``memory_layer/kernel`` of the memory,
``attention_wrapper/bahdanau_attention/query_layer/kernel``, ``attention_v`` and so on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import millrace as tf

_RNNCell = tf.nn.rnn_cell.RNNCell


class AttentionMechanism:
    """What all mechanisms share: the memory, masked, and its keys."""

    def __init__(
        self,
        query_layer: Any,
        memory: Any,
        probability_fn: Any,
        memory_sequence_length: Any = None,
        memory_layer: Any = None,
        score_mask_value: float | None = None,
    ) -> None:
        self._query_layer, self._memory_layer = query_layer, memory_layer
        self._probability_fn = probability_fn or tf.nn.softmax
        with tf.name_scope("AttentionMechanismInit"):
            memory = tf.convert_to_tensor(memory)
            self._mask = None
            if memory_sequence_length is not None:
                self._mask = tf.sequence_mask(memory_sequence_length, tf.shape(memory)[1])
                weights = tf.cast(self._mask, memory.dtype)
                for _ in range((memory.shape.ndims or 3) - 2):
                    weights = tf.expand_dims(weights, -1)
                memory = memory * weights
            self._values = memory
            self._keys = memory if memory_layer is None else memory_layer(memory)
            self._score_mask_value = -math.inf if score_mask_value is None else score_mask_value
            static = self._keys.shape.as_list()
            self._batch_size = static[0] or tf.shape(self._keys)[0]
            self._alignments_size = static[1] or tf.shape(self._keys)[1]

    @property
    def values(self) -> Any:
        """The memory."""
        return self._values

    @property
    def keys(self) -> Any:
        """The memory as scores see it."""
        return self._keys

    @property
    def batch_size(self) -> Any:
        """The size of the batch."""
        return self._batch_size

    @property
    def alignments_size(self) -> Any:
        """The length of the memory."""
        return self._alignments_size

    @property
    def state_size(self) -> Any:
        """The length of the memory."""
        return self._alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros."""
        return tf.zeros([batch_size, self._alignments_size], dtype)

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros."""
        return self.initial_alignments(batch_size, dtype)

    def _score(self, query: Any) -> Any:
        raise NotImplementedError

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """(alignments, next state)."""
        score = self._score(query)
        if self._mask is not None:
            score = tf.where(self._mask, score, tf.fill(tf.shape(score), self._score_mask_value))
        alignments = self._probability_fn(score)
        return alignments, alignments


class LuongAttention(AttentionMechanism):
    """Scores are dot products of query and keys (Luong et al., 2015)."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Any = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str = "LuongAttention",
        custom_key_value_fn: Any = None,
    ) -> None:
        super().__init__(
            None, memory, probability_fn, memory_sequence_length,
            tf.layers.Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype),
            score_mask_value,
        )  # fmt: skip
        self._num_units, self._scale, self._name = num_units, scale, name

    def _score(self, query: Any) -> Any:
        depth, units = query.shape.as_list()[-1], self._keys.shape.as_list()[-1]
        if depth != units:
            raise ValueError(
                "Incompatible or unknown inner dimensions between query and keys. Query "
                f"({query}) has units: {depth}. Keys ({self._keys}) have units: {units}. Perhaps "
                f"you need to set num_units to the keys' dimension ({units})?"
            )
        with tf.variable_scope(None, "luong_attention", [query]):
            score = tf.squeeze(
                tf.matmul(tf.expand_dims(query, 1), self._keys, transpose_b=True), [1]
            )
            if self._scale:
                score = score * tf.get_variable(
                    "attention_g", dtype=query.dtype, initializer=tf.ones_initializer(), shape=()
                )
            return score


class BahdanauAttention(AttentionMechanism):
    """Scores are sums of query and keys through tanh (Bahdanau et al., 2014)."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Any = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str = "BahdanauAttention",
        custom_key_value_fn: Any = None,
    ) -> None:
        super().__init__(
            tf.layers.Dense(num_units, name="query_layer", use_bias=False, dtype=dtype), memory,
            probability_fn, memory_sequence_length,
            tf.layers.Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype),
            score_mask_value,
        )  # fmt: skip
        self._num_units, self._normalize, self._name = num_units, normalize, name

    def _score(self, query: Any) -> Any:
        with tf.variable_scope(None, "bahdanau_attention", [query]):
            processed = tf.expand_dims(self._query_layer(query), 1)
            v = tf.get_variable("attention_v", [self._num_units], dtype=query.dtype)
            if not self._normalize:
                return tf.reduce_sum(v * tf.tanh(self._keys + processed), [2])
            g = tf.get_variable(
                "attention_g", dtype=query.dtype, shape=(),
                initializer=tf.constant_initializer(math.sqrt(1.0 / self._num_units)),
            )  # fmt: skip
            b = tf.get_variable(
                "attention_b", [self._num_units], dtype=query.dtype,
                initializer=tf.zeros_initializer(),
            )  # fmt: skip
            unit = g * v * tf.rsqrt(tf.reduce_sum(tf.square(v)))
            return tf.reduce_sum(unit * tf.tanh(self._keys + processed + b), [2])


class AttentionWrapperState(NamedTuple):
    """The state of an `AttentionWrapper`."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """The state with some parts replaced."""
        return self._replace(**kwargs)


class AttentionWrapper(_RNNCell):
    """Gives a cell attention: the context of the last step goes into the next input."""

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Any = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: Any = None,
    ) -> None:
        super().__init__(name=name)
        self._cell = cell
        self._is_multi = isinstance(attention_mechanism, list | tuple)
        self._mechanisms = tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
        self._cell_input_fn = cell_input_fn or (lambda x, attention: tf.concat([x, attention], -1))
        sizes = (
            None
            if attention_layer_size is None
            else tuple(attention_layer_size)
            if isinstance(attention_layer_size, list | tuple)
            else (attention_layer_size,)
        )
        if sizes is not None and len(sizes) != len(self._mechanisms):
            raise ValueError(
                "If provided, attention_layer_size must contain exactly one integer per "
                f"attention_mechanism, saw: {len(sizes)} vs {len(self._mechanisms)}"
            )
        self._layers = None
        if sizes is not None:
            self._layers = [
                tf.layers.Dense(size, name="attention_layer", use_bias=False) for size in sizes
            ]
            self._attention_size = sum(sizes)
        elif attention_layer is not None:
            self._layers = (
                list(attention_layer)
                if isinstance(attention_layer, list | tuple)
                else [attention_layer]
            )
            self._attention_size = sum(layer.units for layer in self._layers)
        else:
            self._attention_size = sum(m.values.shape.as_list()[-1] for m in self._mechanisms)
        self._output_attention = output_attention
        self._keep_history = alignment_history
        self._initial_cell_state = initial_cell_state

    def _one_or_all(self, values: Any) -> Any:
        values = tuple(values)
        return values if self._is_multi else values[0]

    @property
    def output_size(self) -> Any:
        """The size of the attention, or of the cell's output."""
        return self._attention_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> Any:
        """The sizes of the state's parts."""
        sizes = self._one_or_all(m.alignments_size for m in self._mechanisms)
        return AttentionWrapperState(
            self._cell.state_size, self._attention_size, tf.TensorShape([]), sizes,
            self._one_or_all(() for _ in self._mechanisms), sizes,
        )  # fmt: skip

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The state before the first step."""
        with tf.name_scope(f"{type(self).__name__}ZeroState"):
            cell_state = self._initial_cell_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch_size, dtype)
            else:
                cell_state = tf.nest.map_structure(
                    lambda s: tf.identity(s, name="checked_cell_state"), cell_state
                )
            alignments = [m.initial_alignments(batch_size, dtype) for m in self._mechanisms]
            history = [
                tf.TensorArray(dtype, size=0, dynamic_size=True, element_shape=a.shape)
                if self._keep_history
                else ()
                for a in alignments
            ]
            attention = tf.zeros([batch_size, self._attention_size], dtype)
            return AttentionWrapperState(
                cell_state, attention, tf.zeros([], tf.int32), self._one_or_all(alignments),
                self._one_or_all(history),
                self._one_or_all(m.initial_state(batch_size, dtype) for m in self._mechanisms),
            )  # fmt: skip

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step of the cell, then attention with its output as the query."""
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(
                "Expected state to be instance of AttentionWrapperState. Received type "
                f"{type(state)} instead."
            )
        output, cell_state = self._cell(
            self._cell_input_fn(inputs, state.attention), state.cell_state
        )
        states = state.attention_state if self._is_multi else (state.attention_state,)
        histories = state.alignment_history if self._is_multi else (state.alignment_history,)
        attentions, alignments, next_states, kept = [], [], [], []
        for i, mechanism in enumerate(self._mechanisms):
            found, after = mechanism(output, state=states[i])
            context = tf.squeeze(tf.matmul(tf.expand_dims(found, 1), mechanism.values), [1])
            if self._layers is not None:
                context = self._layers[i](tf.concat([output, context], 1))
            attentions.append(context)
            alignments.append(found)
            next_states.append(after)
            kept.append(histories[i].write(state.time, found) if self._keep_history else ())
        attention = tf.concat(attentions, 1) if len(attentions) > 1 else attentions[0]
        following = AttentionWrapperState(
            cell_state, attention, state.time + 1, self._one_or_all(alignments),
            self._one_or_all(kept), self._one_or_all(next_states),
        )  # fmt: skip
        return (attention if self._output_attention else output), following


def hardmax(logits: Any, name: str | None = None) -> Any:
    """One-hot rows at the largest."""
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits)
        return tf.one_hot(tf.argmax(logits, -1), logits.shape.as_list()[-1], dtype=logits.dtype)
