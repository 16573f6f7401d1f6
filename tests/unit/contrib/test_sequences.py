"""`tf.contrib.seq2seq`, `rnn`, `crf` and `opt`: trained a little, and against sums by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millrace as tf

seq2seq = tf.contrib.seq2seq


@pytest.fixture(autouse=True)
def _graph() -> Iterator[None]:
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        yield


def test_crf_agrees_with_all_sequences_one_by_one() -> None:
    scores = np.random.RandomState(1).randn(2, 3, 2).astype(np.float32)
    transitions = np.random.RandomState(2).randn(2, 2).astype(np.float32)
    tags, lengths = [[0, 1, 1], [1, 0, 0]], [3, 2]
    likelihood, _ = tf.contrib.crf.crf_log_likelihood(
        tf.constant(scores), tf.constant(tags), tf.constant(lengths), tf.constant(transitions)
    )
    decoded = tf.contrib.crf.crf_decode(tf.constant(scores), tf.constant(transitions), lengths)
    with tf.Session() as session:
        found, (best_tags, best_score) = session.run([likelihood, decoded])

    def score(i: int, path: Any) -> float:
        own = sum(scores[i, t, tag] for t, tag in enumerate(path))
        return float(own + sum(transitions[a, b] for a, b in itertools.pairwise(path)))

    for i, length in enumerate(lengths):
        paths = list(itertools.product(range(2), repeat=length))
        every = [score(i, path) for path in paths]
        norm = np.log(np.exp(every).sum())
        assert found[i] == pytest.approx(score(i, tags[i][:length]) - norm, abs=1e-4)
        assert tuple(best_tags[i][:length]) == paths[int(np.argmax(every))]
        assert best_score[i] == pytest.approx(max(every), abs=1e-4)


def test_a_decoder_with_attention_has_tensorflows_variables_and_learns() -> None:
    ids = tf.constant([[2, 3, 4], [4, 3, 2]])
    embedding = tf.get_variable("embedding", [6, 4])
    memory, state = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(4), tf.nn.embedding_lookup(embedding, ids), dtype=tf.float32
    )
    attention = seq2seq.BahdanauAttention(4, memory, memory_sequence_length=[3, 2])
    cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(4), attention, attention_layer_size=4)
    helper = seq2seq.TrainingHelper(tf.nn.embedding_lookup(embedding, ids), [3, 3])
    decoder = seq2seq.BasicDecoder(
        cell,
        helper,
        cell.zero_state(2, tf.float32).clone(cell_state=state),
        tf.layers.Dense(6, use_bias=False, name="projection"),
    )
    outputs, _, lengths = seq2seq.dynamic_decode(decoder)
    loss = seq2seq.sequence_loss(outputs.rnn_output, ids, tf.ones([2, 3]))
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    names = [v.op.name for v in tf.trainable_variables()]
    assert "memory_layer/kernel" in names
    assert "decoder/attention_wrapper/bahdanau_attention/query_layer/kernel" in names
    assert "decoder/attention_wrapper/attention_layer/kernel" in names
    assert "decoder/projection/kernel" in names
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, shape, ends = session.run([loss, tf.shape(outputs.rnn_output), lengths])
        for _ in range(10):
            session.run(train)
        assert session.run(loss) < first
    assert shape.tolist() == [2, 3, 6]
    assert ends.tolist() == [3, 3]


class _Chain(tf.nn.rnn_cell.RNNCell):
    """Scores of the next token that depend on the last one only."""

    def __init__(self, table: Any) -> None:
        super().__init__()
        self._table = tf.constant(table)

    state_size = 1
    output_size = 3

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        return tf.matmul(inputs, self._table), state


def test_beam_search_finds_what_a_greedy_search_misses() -> None:
    # Token 1 looks better at first, but only token 2 leads to a certain end (0).
    table = np.log(
        np.array([[0.98, 0.01, 0.01], [0.34, 0.33, 0.33], [0.98, 0.01, 0.01]], np.float32)
    )
    table[0] = np.log([0.001, 0.55, 0.449])
    decoder = seq2seq.BeamSearchDecoder(
        _Chain(table), tf.eye(3), [0], 0, tf.zeros([2, 1]), beam_width=2
    )
    outputs, _, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=3)
    with tf.Session() as session:
        ids = session.run(outputs.predicted_ids)
    assert ids.shape[0] == 1
    assert ids.shape[2] == 2
    assert ids[0, :2, 0].tolist() == [2, 0]


def test_lazy_adam_and_weight_decay() -> None:
    table = tf.Variable(np.ones((4, 2), np.float32))
    plain = tf.Variable([2.0])
    loss = tf.reduce_sum(tf.gather(table, [1])) + 0.0 * tf.reduce_sum(plain)
    lazy = tf.contrib.opt.LazyAdamOptimizer(0.1).minimize(loss, var_list=[table])
    decay = tf.contrib.opt.AdamWOptimizer(0.5, 0.0).minimize(loss, var_list=[plain])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([lazy, decay])
        rows, value = session.run([table, plain])
    np.testing.assert_allclose(rows[[0, 2, 3]], 1.0)
    np.testing.assert_allclose(rows[1], 0.9, atol=1e-4)
    np.testing.assert_allclose(value, [1.0])


def test_moving_average_optimizer_saves_the_averages(tmp_path: Any) -> None:
    v = tf.get_variable("v", initializer=[4.0])
    optimizer = tf.contrib.opt.MovingAverageOptimizer(
        tf.train.GradientDescentOptimizer(1.0), average_decay=0.5
    )
    train = optimizer.minimize(tf.reduce_sum(v))
    saver = optimizer.swapping_saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = saver.save(session, str(tmp_path / "model"))
    assert tf.train.load_variable(path, "v").tolist() == [3.5]
