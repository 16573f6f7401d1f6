"""Linear-chain conditional random fields: likelihood, and the best tags."""

from __future__ import annotations

from typing import Any

import numpy as np

import millrace as tf


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """The sum of the tags' own scores."""
    mask = tf.sequence_mask(sequence_lengths, tf.shape(tag_indices)[1], dtype=tf.float32)
    depth = tf.shape(inputs)[2]
    picked = tf.reduce_sum(inputs * tf.one_hot(tag_indices, depth, dtype=inputs.dtype), 2)
    return tf.reduce_sum(picked * mask, 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The sum of the scores of following tags."""
    pairs = tf.stack([tag_indices[:, :-1], tag_indices[:, 1:]], -1)
    scores = tf.gather_nd(transition_params, pairs)
    lengths = tf.maximum(tf.cast(sequence_lengths, tf.int32) - 1, 0)
    mask = tf.sequence_mask(lengths, tf.shape(tag_indices)[1] - 1, dtype=scores.dtype)
    return tf.reduce_sum(scores * mask, 1)


def crf_sequence_score(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any
) -> Any:
    """The score of whole sequences of tags."""
    return crf_unary_score(tag_indices, sequence_lengths, inputs) + crf_binary_score(
        tag_indices, sequence_lengths, transition_params
    )


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The logarithm of the sum of exponentials of all sequences' scores."""
    alphas = _forward(inputs, sequence_lengths, transition_params, _log_sum)
    norm = tf.reduce_logsumexp(alphas, 1)
    return tf.where(tf.cast(sequence_lengths, tf.int32) > 0, norm, tf.zeros_like(norm))


def _log_sum(state: Any, transitions: Any) -> Any:
    return tf.reduce_logsumexp(tf.expand_dims(state, 2) + transitions, 1)


def _forward(inputs: Any, lengths: Any, transitions: Any, combine: Any) -> Any:
    """The state after each sequence's last tag."""
    transitions = tf.expand_dims(tf.convert_to_tensor(transitions), 0)
    steps = tf.transpose(inputs, [1, 0, 2])
    lengths = tf.cast(lengths, tf.int32)

    def body(time: Any, state: Any) -> Any:
        new = steps[time] + combine(state, transitions)
        new.set_shape(state.shape)
        inside = tf.logical_and(tf.expand_dims(time < lengths, 1), tf.ones_like(new, dtype=tf.bool))
        return time + 1, tf.where(inside, new, state)

    _, final = tf.while_loop(
        lambda time, _: time < tf.shape(inputs)[1], body, (tf.constant(1), steps[0])
    )
    return final


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """(log-likelihood of each sequence's tags, transition scores).

    The scores are the variable ``transitions`` unless they are given.
    """
    tags = inputs.shape.as_list()[2]
    if transition_params is None:
        transition_params = tf.get_variable("transitions", [tags, tags])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], float]:
    """The best tags of one sequence, in NumPy; score is [time, tags]."""
    trellis = np.zeros_like(score)
    pointers = np.zeros_like(score, dtype=np.int32)
    trellis[0] = score[0]
    for t in range(1, score.shape[0]):
        v = np.expand_dims(trellis[t - 1], 1) + transition_params
        trellis[t] = score[t] + np.max(v, 0)
        pointers[t] = np.argmax(v, 0)
    path = [int(np.argmax(trellis[-1]))]
    for pointer in reversed(pointers[1:]):
        path.append(int(pointer[path[-1]]))
    path.reverse()
    return path, float(np.max(trellis[-1]))


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """(best tags, 0 past the ends; their scores)."""
    lengths = tf.cast(sequence_length, tf.int32)
    transitions = tf.expand_dims(tf.convert_to_tensor(transition_params), 0)
    steps = tf.transpose(potentials, [1, 0, 2])
    count = tf.shape(potentials)[1]
    pointers = tf.TensorArray(tf.int32, size=count, element_shape=steps.shape[1:])
    tags = tf.shape(potentials)[2]
    same = tf.zeros([tf.shape(potentials)[0], 1], tf.int32) + tf.expand_dims(tf.range(tags), 0)
    pointers = pointers.write(0, same)

    def forward(time: Any, state: Any, pointers: Any) -> Any:
        candidates = tf.expand_dims(state, 2) + transitions
        best = tf.reduce_max(candidates, 1) + steps[time]
        back = tf.cast(tf.argmax(candidates, 1), tf.int32)
        inside = tf.logical_and(
            tf.expand_dims(time < lengths, 1), tf.ones_like(best, dtype=tf.bool)
        )
        best, back = tf.where(inside, best, state), tf.where(inside, back, same)
        best.set_shape(state.shape)
        return time + 1, best, pointers.write(time, back)

    _, final, pointers = tf.while_loop(
        lambda time, *_: time < count, forward, (tf.constant(1), steps[0], pointers)
    )
    last = tf.cast(tf.argmax(final, 1), tf.int32)
    rows = tf.range(tf.shape(potentials)[0])
    found = tf.TensorArray(tf.int32, size=count)

    def backward(time: Any, tag: Any, found: Any) -> Any:
        before = tf.gather_nd(pointers.read(time), tf.stack([rows, tag], 1))
        before.set_shape(tag.shape)
        return time - 1, before, found.write(time, tag)

    _, _, found = tf.while_loop(lambda time, *_: time >= 0, backward, (count - 1, last, found))
    result = tf.transpose(found.stack(), [1, 0])
    result = result * tf.sequence_mask(lengths, count, dtype=tf.int32)
    result.set_shape(potentials.shape[:2])
    return result, tf.reduce_max(final, 1)
