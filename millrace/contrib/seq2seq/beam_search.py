"""Beam search: the best few sequences of every example."""

from __future__ import annotations

from typing import Any, NamedTuple

import millrace as tf
from millrace.contrib.seq2seq.decoder import Decoder


class BeamSearchDecoderState(NamedTuple):
    """The cells' states and what is known of each beam."""

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any


class BeamSearchDecoderOutput(NamedTuple):
    """What a step gives: scores, ids and the beam that each came from."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """The sequences, best first, and what the steps gave."""

    predicted_ids: Any
    beam_search_decoder_output: Any


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Every example `multiplier` times, one after the other."""
    with tf.name_scope(name, "tile_batch", tf.nest.flatten(t)):
        return tf.nest.map_structure(lambda x: _tile(x, multiplier), t)


def _tile(t: Any, multiplier: int) -> Any:
    if isinstance(t, tf.TensorArray):
        return t
    t = tf.convert_to_tensor(t)
    if t.shape.ndims is None:
        raise ValueError("t must have statically known rank")
    static = t.shape.as_list()
    if not static:
        return t
    tiled = tf.tile(tf.expand_dims(t, 1), [1, multiplier] + [1] * (len(static) - 1))
    result = tf.reshape(tiled, tf.concat([[tf.shape(t)[0] * multiplier], tf.shape(t)[1:]], 0))
    first = None if static[0] is None else static[0] * multiplier
    result.set_shape([first, *static[1:]])
    return result


def gather_tree(
    step_ids: Any,
    parent_ids: Any,
    max_sequence_lengths: Any,
    end_token: Any,
    name: str | None = None,
) -> Any:
    """Whole sequences from ids and parents of [time, batch, beam], followed from the end."""
    steps = tf.shape(step_ids)[0]
    width = tf.shape(step_ids)[2]
    batch = tf.shape(step_ids)[1]
    beams = tf.tile(tf.expand_dims(tf.range(width), 0), [batch, 1])
    lengths = tf.expand_dims(tf.minimum(max_sequence_lengths, steps), 1)
    array = tf.TensorArray(step_ids.dtype, size=steps)

    def pick(values: Any, beams: Any) -> Any:
        rows = tf.tile(tf.expand_dims(tf.range(batch), 1), [1, width])
        return tf.gather_nd(values, tf.stack([rows, beams], -1))

    def body(time: Any, beams: Any, array: Any) -> Any:
        inside = tf.logical_and(time < lengths, tf.ones_like(beams, dtype=tf.bool))
        ids = tf.where(inside, pick(step_ids[time], beams), tf.fill(tf.shape(beams), end_token))
        parents = tf.where(inside, pick(parent_ids[time], beams), beams)
        return time - 1, parents, array.write(time, ids)

    _, _, array = tf.while_loop(lambda time, *_: time >= 0, body, (steps - 1, beams, array))
    found = array.stack()
    # What follows the first end token is the end token.
    ended = tf.cumsum(tf.cast(tf.equal(found, end_token), tf.int32), axis=0, exclusive=True) > 0
    result = tf.where(ended, tf.fill(tf.shape(found), end_token), found)
    result.set_shape(step_ids.shape)
    return result


class BeamSearchDecoder(Decoder):
    """Keeps the `beam_width` likeliest beginnings of every example."""

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: float = 0.0,
        coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        self._cell, self._output_layer = cell, output_layer
        if callable(embedding) and not isinstance(embedding, tf.Tensor | tf.Variable):
            self._embedding_fn = embedding
        else:
            self._embedding_fn = lambda ids: tf.nn.embedding_lookup(embedding, ids)
        self._start_tokens = tf.convert_to_tensor(start_tokens, dtype=tf.int32)
        if self._start_tokens.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        self._end_token = tf.convert_to_tensor(end_token, dtype=tf.int32)
        if self._end_token.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._width = beam_width
        self._penalty = length_penalty_weight
        self._batch = tf.size(self._start_tokens)
        self._static_batch = self._start_tokens.shape.as_list()[0]
        self._initial_cell_state = tf.nest.map_structure(self._split_beams, initial_state)

    # -- [batch·beam, …] and [batch, beam, …] ---------------------------------------------------

    def _split_beams(self, t: Any) -> Any:
        if isinstance(t, tf.TensorArray) or not t.shape.ndims:
            return t
        rest = t.shape.as_list()[1:]
        split = tf.reshape(t, tf.concat([[self._batch, self._width], tf.shape(t)[1:]], 0))
        split.set_shape([self._static_batch, self._width, *rest])
        return split

    def _merge_beams(self, t: Any) -> Any:
        if isinstance(t, tf.TensorArray) or (t.shape.ndims or 0) < 2:
            return t
        rest = t.shape.as_list()[2:]
        merged = tf.reshape(t, tf.concat([[self._batch * self._width], tf.shape(t)[2:]], 0))
        first = None if self._static_batch is None else self._static_batch * self._width
        merged.set_shape([first, *rest])
        return merged

    def _of_beams(self, values: Any, beams: Any) -> Any:
        if isinstance(values, tf.TensorArray) or (values.shape.ndims or 0) < 2:
            return values
        rows = tf.tile(tf.expand_dims(tf.range(self._batch), 1), [1, self._width])
        found = tf.gather_nd(values, tf.stack([rows, beams], -1))
        found.set_shape(values.shape)
        return found

    @property
    def batch_size(self) -> Any:
        """The number of examples, as a tensor."""
        return self._batch

    @property
    def tracks_own_finished(self) -> bool:
        """Beams change places, so the decoder knows which have ended."""
        return True

    @property
    def output_size(self) -> Any:
        """Each part has one value for each beam."""
        size = tf.TensorShape([self._width])
        return BeamSearchDecoderOutput(size, size, size)

    @property
    def output_dtype(self) -> Any:
        """Types of the parts."""
        kind = tf.nest.flatten(self._initial_cell_state)[0].dtype
        return BeamSearchDecoderOutput(kind, tf.int32, tf.int32)

    def initialize(self, name: str | None = None) -> Any:
        """Only the first beam counts at the start: the others are the same."""
        kind = tf.nest.flatten(self._initial_cell_state)[0].dtype
        tokens = tf.tile(tf.expand_dims(self._start_tokens, 1), [1, self._width])
        inputs = self._embedding_fn(tokens)
        finished = tf.zeros([self._batch, self._width], tf.bool)
        first = tf.one_hot(tf.zeros([self._batch], tf.int32), self._width, on_value=0.0,
                           off_value=-1e9, dtype=kind)  # fmt: skip
        state = BeamSearchDecoderState(
            self._initial_cell_state,
            first,
            finished,
            tf.zeros([self._batch, self._width], tf.int64),
        )
        return finished, inputs, state

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """One step of all beams, and the best of what follows."""
        cell_state = tf.nest.map_structure(self._merge_beams, state.cell_state)
        outputs, next_cell = self._cell(self._merge_beams(inputs), cell_state)
        if self._output_layer is not None:
            outputs = self._output_layer(outputs)
        outputs = self._split_beams(outputs)
        next_cell = tf.nest.map_structure(self._split_beams, next_cell)
        vocabulary = outputs.shape.as_list()[-1] or tf.shape(outputs)[-1]
        log_probs = tf.nn.log_softmax(outputs)
        # A beam that has ended goes on with the end token, at no cost.
        only_end = tf.one_hot(
            tf.fill([self._batch, self._width], self._end_token), vocabulary, on_value=0.0,
            off_value=log_probs.dtype.min, dtype=log_probs.dtype,
        )  # fmt: skip
        done = tf.expand_dims(state.finished, -1)
        full = tf.logical_and(done, tf.ones_like(log_probs, dtype=tf.bool))
        log_probs = tf.where(full, only_end, log_probs)
        total = tf.expand_dims(state.log_probs, -1) + log_probs
        longer = tf.expand_dims(state.lengths, -1) + tf.cast(
            tf.logical_and(
                tf.logical_not(done),
                tf.not_equal(tf.range(vocabulary), self._end_token)[None, None, :],
            ),
            tf.int64,
        )
        scores = total / self._length_penalty(longer, total.dtype)
        flat = tf.reshape(scores, [self._batch, -1])
        best, places = tf.nn.top_k(flat, self._width)
        parents, words = places // vocabulary, places % vocabulary
        rows = tf.tile(tf.expand_dims(tf.range(self._batch), 1), [1, self._width])
        new_probs = tf.gather_nd(tf.reshape(total, [self._batch, -1]), tf.stack([rows, places], -1))
        before = self._of_beams(state.finished, parents)
        finished = tf.logical_or(before, tf.equal(words, self._end_token))
        lengths = self._of_beams(state.lengths, parents) + tf.cast(tf.logical_not(before), tf.int64)
        next_cell = tf.nest.map_structure(lambda t: self._of_beams(t, parents), next_cell)
        shape = [self._static_batch, self._width]
        for each in (new_probs, finished, lengths, best, words, parents):
            each.set_shape(shape)
        following = self._embedding_fn(words)
        new_state = BeamSearchDecoderState(next_cell, new_probs, finished, lengths)
        return BeamSearchDecoderOutput(best, words, parents), new_state, following, finished

    def _length_penalty(self, lengths: Any, kind: Any) -> Any:
        if self._penalty == 0.0:
            return tf.constant(1.0, kind)
        return tf.pow((5.0 + tf.cast(lengths, kind)) / 6.0, self._penalty)

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """Follows the parents from the end."""
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state
