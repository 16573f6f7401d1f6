"""Decoders that unroll a cell over a list of inputs, or over their own last outputs.

A `loop_function(previous_output, step)` gives the next input; with one, only the first input of
the list is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.contrib.rnn.cells import Linear
from millrace.core import nest


def embed_last_symbol(
    embedding: Any, output_projection: Any = None, update_embedding: bool = True
) -> Callable[[Any, int], Any]:
    """A loop function: the embedding of the symbol with the largest output."""

    def next_input(previous: Any, _: int) -> Any:
        if output_projection is not None:
            previous = tf.nn.xw_plus_b(previous, *output_projection)
        embedded = tf.nn.embedding_lookup(embedding, tf.argmax(previous, 1))
        return embedded if update_embedding else tf.stop_gradient(embedded)

    return next_input


def check_projection(output_projection: Any, num_symbols: int, dtype: Any) -> None:
    """Raises ValueError if the projection does not lead to `num_symbols`."""
    if output_projection is None:
        return
    weights, biases = (tf.convert_to_tensor(each, dtype=dtype) for each in output_projection)
    weights.shape.assert_is_compatible_with([None, num_symbols])
    biases.shape.assert_is_compatible_with([num_symbols])


def rnn_decoder(
    decoder_inputs: Any, initial_state: Any, cell: Any, loop_function: Any = None, scope: Any = None
) -> tuple[list[Any], Any]:
    """Outputs of each step [batch, output_size], and the last state."""
    outputs: list[Any] = []
    state = initial_state
    with tf.variable_scope(scope or "rnn_decoder"):
        for step, given in enumerate(decoder_inputs):
            if loop_function is not None and outputs:
                with tf.variable_scope("loop_function", reuse=True):
                    given = loop_function(outputs[-1], step)
            if step:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(given, state)
            outputs.append(output)
    return outputs, state


def embedding_rnn_decoder(
    decoder_inputs: Any, initial_state: Any, cell: Any, num_symbols: int, embedding_size: int,
    output_projection: Any = None, feed_previous: bool = False,
    update_embedding_for_previous: bool = True, scope: Any = None,
) -> tuple[list[Any], Any]:  # fmt: skip
    """`rnn_decoder` over symbols; with `feed_previous` over its own."""
    with tf.variable_scope(scope or "embedding_rnn_decoder") as inside:
        check_projection(output_projection, num_symbols, inside.dtype)
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        loop = None
        if feed_previous:
            loop = embed_last_symbol(embedding, output_projection, update_embedding_for_previous)
        embedded = (tf.nn.embedding_lookup(embedding, each) for each in decoder_inputs)
        return rnn_decoder(embedded, initial_state, cell, loop_function=loop)


class _Attention:
    """Heads that look at the encoder's outputs [batch, length, depth] with a query."""

    def __init__(self, states: Any, heads: int, dtype: Any) -> None:
        length, self._depth = states.shape.as_list()[1:3]
        self._length = tf.shape(states)[1] if length is None else length
        self._dtype = dtype
        self._hidden = tf.reshape(states, [-1, self._length, 1, self._depth])
        self._features, self._scores = [], []
        for head in range(heads):
            kernel = tf.get_variable(f"AttnW_{head}", [1, 1, self._depth, self._depth], dtype=dtype)
            self._features.append(tf.nn.conv2d(self._hidden, kernel, [1, 1, 1, 1], "SAME"))
            self._scores.append(tf.get_variable(f"AttnV_{head}", [self._depth], dtype=dtype))

    def nothing_yet(self, batch_size: Any) -> list[Any]:
        """What is seen before the first query: zeros."""
        size = tf.stack([batch_size, self._depth])
        seen = [tf.zeros(size, dtype=self._dtype) for _ in self._features]
        for each in seen:
            each.set_shape([None, self._depth])
        return seen

    def __call__(self, query: Any) -> list[Any]:
        """What each head sees, [batch, depth]."""
        if nest.is_nested(query):
            query = tf.concat(nest.flatten(query), 1)
        seen = []
        for head, features in enumerate(self._features):
            with tf.variable_scope(f"Attention_{head}"):
                wanted = tf.reshape(
                    Linear(query, self._depth, True)(query), [-1, 1, 1, self._depth]
                )
                match = tf.tanh(features + tf.cast(wanted, self._dtype))
                score = tf.reduce_sum(self._scores[head] * match, [2, 3])
                weights = tf.cast(tf.nn.softmax(tf.cast(score, tf.float32)), self._dtype)
                spread = tf.reshape(weights, [-1, self._length, 1, 1])
                mean = tf.reduce_sum(spread * self._hidden, [1, 2])
                seen.append(tf.reshape(mean, [-1, self._depth]))
        return seen


def attention_decoder(
    decoder_inputs: Any, initial_state: Any, attention_states: Any, cell: Any,
    output_size: int | None = None, num_heads: int = 1, loop_function: Any = None,
    dtype: Any = None, scope: Any = None, initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:  # fmt: skip
    """`rnn_decoder` whose cell also sees what attention finds in the encoder's outputs.

    Raises:
      ValueError: No inputs, no heads, or a size that has to be known is not.
    """
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    if attention_states.shape[2].value is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {attention_states.shape}")
    output_size = cell.output_size if output_size is None else output_size
    with tf.variable_scope(scope or "attention_decoder", dtype=dtype) as inside:
        kind = inside.dtype
        batch_size = tf.shape(decoder_inputs[0])[0]
        attend = _Attention(attention_states, num_heads, kind)
        seen = attend.nothing_yet(batch_size)
        state: Any = initial_state
        outputs: list[Any] = []
        if initial_state_attention:
            seen = attend(initial_state)
        for step, given in enumerate(decoder_inputs):
            if step:
                tf.get_variable_scope().reuse_variables()
            if loop_function is not None and outputs:
                with tf.variable_scope("loop_function", reuse=True):
                    given = loop_function(outputs[-1], step)
            width = given.shape.with_rank(2)[1].value
            if width is None:
                raise ValueError(f"Could not infer input size from input: {given.name}")
            joined = [tf.cast(each, kind) for each in (given, *seen)]
            cell_output, state = cell(Linear(joined, width, True)(joined), state)
            # The variables of attention are there already if the first query was the state given.
            already = True if not step and initial_state_attention else None
            with tf.variable_scope(tf.get_variable_scope(), reuse=already):
                seen = attend(state)
            with tf.variable_scope("AttnOutputProjection"):
                joined = [tf.cast(cell_output, kind), *seen]
                outputs.append(Linear(joined, output_size, True)(joined))
    return outputs, state


def embedding_attention_decoder(
    decoder_inputs: Any, initial_state: Any, attention_states: Any, cell: Any, num_symbols: int,
    embedding_size: int, num_heads: int = 1, output_size: int | None = None,
    output_projection: Any = None, feed_previous: bool = False,
    update_embedding_for_previous: bool = True, dtype: Any = None, scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:  # fmt: skip
    """`attention_decoder` over symbols; with `feed_previous` over its own."""
    if output_projection is not None:
        biases = tf.convert_to_tensor(output_projection[1], dtype=dtype)
        biases.shape.assert_is_compatible_with([num_symbols])
    with tf.variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        loop = None
        if feed_previous:
            loop = embed_last_symbol(embedding, output_projection, update_embedding_for_previous)
        embedded = [tf.nn.embedding_lookup(embedding, each) for each in decoder_inputs]
        return attention_decoder(
            embedded, initial_state, attention_states, cell,
            cell.output_size if output_size is None else output_size, num_heads, loop,
            initial_state_attention=initial_state_attention,
        )  # fmt: skip
