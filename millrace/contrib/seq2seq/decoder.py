"""Decoders, the loop that runs them, and the loss of sequences."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import millrace as tf


class Decoder:
    """What `dynamic_decode` runs: `initialize`, `step`, `finalize`."""

    @property
    def batch_size(self) -> Any:
        """The size of the batch, as a tensor."""
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """Sizes of what a step gives."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        """Types of what a step gives."""
        raise NotImplementedError

    def initialize(self, name: str | None = None) -> Any:
        """(finished, first inputs, first state)."""
        raise NotImplementedError

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """(outputs, next state, next inputs, finished)."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """What is done when all have ended."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether the decoder itself knows which sequences have ended."""
        return False


class BasicDecoderOutput(NamedTuple):
    """What a `BasicDecoder` gives."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A cell whose inputs a helper chooses."""

    def __init__(
        self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None
    ) -> None:
        self._cell, self._helper = cell, helper
        self._initial_state, self._output_layer = initial_state, output_layer

    @property
    def batch_size(self) -> Any:
        """The helper's."""
        return self._helper.batch_size

    def _rnn_output_size(self) -> Any:
        if self._output_layer is None:
            return self._cell.output_size
        return self._output_layer.units

    @property
    def output_size(self) -> Any:
        """Sizes of outputs and samples."""
        return BasicDecoderOutput(self._rnn_output_size(), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        """Types of outputs and samples."""
        kind = tf.nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(kind, self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> Any:
        """(finished, first inputs, first state)."""
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """One step of the cell, a sample, and the next inputs."""
        outputs, cell_state = self._cell(inputs, state)
        if self._output_layer is not None:
            outputs = self._output_layer(outputs)
        ids = self._helper.sample(time=time, outputs=outputs, state=cell_state)
        finished, next_inputs, next_state = self._helper.next_inputs(
            time=time, outputs=outputs, state=cell_state, sample_ids=ids
        )
        return BasicDecoderOutput(outputs, ids), next_state, next_inputs, finished


def dynamic_decode(
    decoder: Any,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
    **kwargs: Any,
) -> tuple[Any, Any, Any]:
    """Runs a decoder until every sequence has ended.

    Args:
      decoder: A `Decoder`.
      output_time_major: Whether outputs are [time, batch, …].
      impute_finished: Whether outputs past the end are zero, and states stay.
      maximum_iterations: The largest number of steps.
      parallel_iterations: Accepted; has no effect.
      swap_memory: Accepted; has no effect.
      scope: The variable scope, ``decoder`` by default.
      **kwargs: Accepted.

    Returns:
      (outputs, final state, lengths).

    Raises:
      TypeError: `decoder` has no step.
    """
    if not hasattr(decoder, "step"):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with tf.variable_scope(scope, "decoder"):
        finished, inputs, state = decoder.initialize()
        if maximum_iterations is not None:
            maximum_iterations = tf.convert_to_tensor(maximum_iterations, tf.int32)
            finished = tf.logical_or(finished, maximum_iterations <= 0)
        lengths = tf.zeros_like(finished, dtype=tf.int32)
        static = finished.shape.as_list()[0]

        def element_shape(size: Any) -> Any:
            return tf.TensorShape([static]).concatenate(
                tf.TensorShape(size if not isinstance(size, int) else [size])
            )

        sizes = decoder.output_size
        kinds = tf.nest.flatten(decoder.output_dtype)
        flat_sizes = _flat_sizes(sizes, len(kinds))
        arrays = tf.nest.pack_sequence_as(
            decoder.output_dtype,
            [
                tf.TensorArray(kind, size=0, dynamic_size=True, element_shape=element_shape(size))
                for kind, size in zip(kinds, flat_sizes, strict=True)
            ],
        )

        def body(time: Any, arrays: Any, state: Any, inputs: Any, done: Any, lengths: Any) -> Any:
            outputs, new_state, new_inputs, ended = decoder.step(time, inputs, state)
            now = ended if decoder.tracks_own_finished else tf.logical_or(ended, done)
            new_lengths = tf.where(done, lengths, tf.fill(tf.shape(lengths), time + 1))
            if impute_finished:
                outputs = tf.nest.map_structure(
                    lambda o: _where(done, tf.zeros_like(o), o), outputs
                )
                new_state = tf.nest.map_structure(
                    lambda new, old: new if isinstance(new, tf.TensorArray) or not new.shape.ndims
                    else _where(done, old, new),
                    new_state, state,
                )  # fmt: skip
            if maximum_iterations is not None:
                now = tf.logical_or(now, time + 1 >= maximum_iterations)
            written = tf.nest.map_structure(
                lambda a, o: a.write(time, o), arrays, tf.nest.pack_sequence_as(
                    decoder.output_dtype, tf.nest.flatten(outputs))
            )  # fmt: skip
            return time + 1, written, new_state, new_inputs, now, new_lengths

        _, arrays, state, _, _, lengths = tf.while_loop(
            lambda time, arrays, state, inputs, done, lengths: tf.logical_not(tf.reduce_all(done)),
            body,
            (tf.constant(0), arrays, state, inputs, finished, lengths),
        )
        outputs = tf.nest.map_structure(lambda a: a.stack(), arrays)
        with contextlib.suppress(NotImplementedError):
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = tf.nest.map_structure(
                lambda o: tf.transpose(o, [1, 0, *range(2, o.shape.ndims)]), outputs
            )
        return outputs, state, lengths


def _flat_sizes(sizes: Any, count: int) -> list[Any]:
    if isinstance(sizes, tuple) and hasattr(sizes, "_fields"):
        found = list(sizes)
    else:
        found = list(tf.nest.flatten(sizes))
    if len(found) != count:
        raise ValueError(f"The decoder has {count} output types but {len(found)} sizes.")
    return found


def _where(condition: Any, first: Any, second: Any) -> Any:
    for _ in range((second.shape.ndims or 1) - 1):
        condition = tf.expand_dims(condition, -1)
    full = tf.logical_and(condition, tf.ones_like(second, dtype=tf.bool))
    return tf.where(full, first, second)


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Any = None,
    name: str | None = None,
) -> Any:
    """The weighted cross-entropy of sequences.

    Raises:
      ValueError: A shape has another rank, or an axis is both summed and averaged.
    """
    if logits.shape.ndims != 3:
        raise ValueError("Logits must be a [batch_size x sequence_length x logits] tensor")
    if targets.shape.ndims != 2:
        raise ValueError("Targets must be a [batch_size x sequence_length] tensor")
    if weights.shape.ndims != 2:
        raise ValueError("Weights must be a [batch_size x sequence_length] tensor")
    if average_across_timesteps and sum_over_timesteps:
        raise ValueError(
            "average_across_timesteps and sum_over_timesteps cannot be set to True at same time."
        )
    if average_across_batch and sum_over_batch:
        raise ValueError(
            "average_across_batch and sum_over_batch cannot be set to True at same time."
        )
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        classes = tf.shape(logits)[2]
        flat_logits, flat = tf.reshape(logits, [-1, classes]), tf.reshape(targets, [-1])
        if softmax_loss_function is None:
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=flat, logits=flat_logits)
        else:
            loss = softmax_loss_function(labels=flat, logits=flat_logits)
        loss = loss * tf.reshape(weights, [-1])
        if average_across_timesteps and average_across_batch:
            return tf.reduce_sum(loss) / (tf.reduce_sum(weights) + 1e-12)
        if sum_over_timesteps and sum_over_batch:
            count = tf.reduce_sum(tf.cast(weights > 0, loss.dtype))
            return tf.div_no_nan(tf.reduce_sum(loss), count)
        loss = tf.reshape(loss, tf.shape(logits)[0:2])
        loss.set_shape(logits.shape[0:2])
        if average_across_timesteps or sum_over_timesteps:
            loss = tf.reduce_sum(loss, [1]) / (tf.reduce_sum(weights, [1]) + 1e-12)
        if average_across_batch or sum_over_batch:
            loss = tf.reduce_sum(loss, [0]) / (tf.reduce_sum(weights, [0]) + 1e-12)
        return loss
