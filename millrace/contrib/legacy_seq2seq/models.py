"""Encoders and decoders joined, over lists of steps, and one model per bucket of lengths."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import millrace as tf
from millrace.contrib.legacy_seq2seq.decoders import (
    check_projection,
    embed_last_symbol,
    embedding_attention_decoder,
    embedding_rnn_decoder,
    rnn_decoder,
)
from millrace.contrib.legacy_seq2seq.losses import sequence_loss, sequence_loss_by_example
from millrace.contrib.rnn.cells import EmbeddingWrapper, OutputProjectionWrapper
from millrace.core import nest


def _decode(feed_previous: Any, decode: Callable[..., Any], steps: int, state: Any) -> Any:
    """Decodes with what is fed, or with the decoder's own symbols: known now, or in each run.

    Args:
      feed_previous: A bool, or a tensor.
      decode: Of (feeds its own, updates the embedding by them).
      steps: How many outputs there are.
      state: Something of the structure of the last state.
    """
    if isinstance(feed_previous, bool):
        return decode(feed_previous, True)

    def branch(own: bool) -> list[Any]:
        # The first branch makes the variables, the second uses them.
        with tf.variable_scope(tf.get_variable_scope(), reuse=None if own else True):
            outputs, last = decode(own, False)
        return list(outputs) + nest.flatten(last)

    flat = tf.cond(feed_previous, lambda: branch(True), lambda: branch(False))
    last = flat[steps]
    if nest.is_nested(state):
        last = nest.pack_sequence_as(state, flat[steps:])
    return flat[:steps], last


def basic_rnn_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, dtype: Any = tf.float32, scope: Any = None
) -> Any:
    """An encoder, and a decoder with variables of its own that begins with its state."""
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, loop_function: Any = None,
    dtype: Any = tf.float32, scope: Any = None,
) -> Any:  # fmt: skip
    """Encoder and decoder that share their variables."""
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope)


def embedding_rnn_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, num_encoder_symbols: int,
    num_decoder_symbols: int, embedding_size: int, output_projection: Any = None,
    feed_previous: Any = False, dtype: Any = None, scope: Any = None,
) -> Any:  # fmt: skip
    """`basic_rnn_seq2seq` over symbols of two vocabularies."""
    with tf.variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as inside:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=inside.dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)

        def decode(own: bool, update: bool) -> Any:
            return embedding_rnn_decoder(
                decoder_inputs, state, cell, num_decoder_symbols, embedding_size,
                output_projection, own, update,
            )  # fmt: skip

        return _decode(feed_previous, decode, len(decoder_inputs), state)


def embedding_tied_rnn_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, num_symbols: int, embedding_size: int,
    num_decoder_symbols: int | None = None, output_projection: Any = None,
    feed_previous: Any = False, dtype: Any = None, scope: Any = None,
) -> Any:  # fmt: skip
    """`tied_rnn_seq2seq` over symbols of one vocabulary."""
    with tf.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as inside:
        kind = inside.dtype
        check_projection(output_projection, num_symbols, kind)
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size], dtype=kind)
        encoded, decoded = (
            [tf.nn.embedding_lookup(embedding, each) for each in symbols]
            for symbols in (encoder_inputs, decoder_inputs)
        )
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols or num_symbols)

        def decode(own: bool, update: bool) -> Any:
            loop = embed_last_symbol(embedding, output_projection, update) if own else None
            return tied_rnn_seq2seq(encoded, decoded, cell, loop, kind)

        return _decode(feed_previous, decode, len(decoder_inputs), cell.state_size)


def embedding_attention_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, num_encoder_symbols: int,
    num_decoder_symbols: int, embedding_size: int, num_heads: int = 1,
    output_projection: Any = None, feed_previous: Any = False, dtype: Any = None,
    scope: Any = None, initial_state_attention: bool = False,
) -> Any:  # fmt: skip
    """`embedding_rnn_seq2seq` whose decoder attends to all outputs of the encoder."""
    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as inside:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        outputs, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=inside.dtype)
        seen = tf.concat([tf.reshape(each, [-1, 1, cell.output_size]) for each in outputs], 1)
        output_size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols

        def decode(own: bool, update: bool) -> Any:
            return embedding_attention_decoder(
                decoder_inputs, state, seen, cell, num_decoder_symbols, embedding_size, num_heads,
                output_size, output_projection, own, update,
                initial_state_attention=initial_state_attention,
            )  # fmt: skip

        return _decode(feed_previous, decode, len(decoder_inputs), state)


def one2many_rnn_seq2seq(
    encoder_inputs: Any, decoder_inputs_dict: dict[Any, Any], enc_cell: Any,
    dec_cells_dict: dict[Any, Any], num_encoder_symbols: int,
    num_decoder_symbols_dict: dict[Any, int], embedding_size: int, feed_previous: Any = False,
    dtype: Any = None, scope: Any = None,
) -> tuple[dict[Any, Any], dict[Any, Any]]:  # fmt: skip
    """One encoder, and a decoder for each of several tasks.

    Raises:
      TypeError: A cell is none.
      ValueError: Inputs and cells are not for the same decoders.
    """
    if not isinstance(enc_cell, tf.nn.rnn_cell.RNNCell):
        raise TypeError(f"enc_cell is not an RNNCell: {type(enc_cell)}")
    if set(dec_cells_dict) != set(decoder_inputs_dict):
        raise ValueError("keys of dec_cells_dict != keys of decoder_inputs_dict")
    for each in dec_cells_dict.values():
        if not isinstance(each, tf.nn.rnn_cell.RNNCell):
            raise TypeError(f"dec_cell is not an RNNCell: {type(each)}")
    results: dict[Any, Any] = {}
    with tf.variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as inside:
        encoder = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=inside.dtype)
        for name, inputs in decoder_inputs_dict.items():
            symbols = num_decoder_symbols_dict[name]
            with tf.variable_scope(f"one2many_decoder_{name}"):
                cell = OutputProjectionWrapper(dec_cells_dict[name], symbols)

                def decode(
                    own: bool, _: bool, inputs: Any = inputs, cell: Any = cell, n: int = symbols
                ) -> Any:
                    return embedding_rnn_decoder(
                        inputs, state, cell, n, embedding_size, feed_previous=own
                    )

                results[name] = _decode(feed_previous, decode, len(inputs), state)
    return {n: r[0] for n, r in results.items()}, {n: r[1] for n, r in results.items()}


def model_with_buckets(
    encoder_inputs: Any, decoder_inputs: Any, targets: Any, weights: Any,
    buckets: Sequence[tuple[int, int]], seq2seq: Callable[[Any, Any], Any],
    softmax_loss_function: Any = None, per_example_loss: bool = False, name: str | None = None,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Outputs and loss of the same model for each bucket of lengths (encoder, decoder).

    Raises:
      ValueError: The lists are shorter than the last bucket.
    """
    longest = buckets[-1]
    wanted = [("encoder_inputs", encoder_inputs, 0), ("targets", targets, 1)]
    for what, values, side in [*wanted, ("weights", weights, 1)]:
        if len(values) < longest[side]:
            raise ValueError(
                f"Length of {what} ({len(values)}) must be at least that of last bucket "
                f"({longest[side]})."
            )
    loss_of = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs, losses = [], []
    everything = [*encoder_inputs, *decoder_inputs, *targets, *weights]
    with tf.name_scope(name, "model_with_buckets", everything):
        for number, (before, after) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if number else None):
                made, _ = seq2seq(encoder_inputs[:before], decoder_inputs[:after])
                outputs.append(made)
                losses.append(
                    loss_of(
                        made,
                        targets[:after],
                        weights[:after],
                        softmax_loss_function=softmax_loss_function,
                    )
                )
    return outputs, losses
