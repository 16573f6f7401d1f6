"""Recurrent cells and networks, against plain NumPy and against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

BATCH, TIME, DEPTH, UNITS = 3, 5, 4, 6


def batch():
    return np.random.RandomState(0).randn(BATCH, TIME, DEPTH).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_lstm(inputs, kernel, bias, lengths=None):
    c = h = np.zeros([BATCH, UNITS], np.float32)
    outputs = []
    for t in range(TIME):
        gates = np.concatenate([inputs[:, t], h], 1) @ kernel + bias
        i, j, f, o = np.split(gates, 4, 1)
        new_c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
        new_h = sigmoid(o) * np.tanh(new_c)
        alive = np.ones([BATCH, 1], bool) if lengths is None else (t < lengths)[:, None]
        outputs.append(np.where(alive, new_h, 0))
        c, h = np.where(alive, new_c, c), np.where(alive, new_h, h)
    return np.stack(outputs, 1), c, h


@pytest.mark.parametrize("lengths", [None, np.array([2, 5, 0], np.int32)])
def test_dynamic_rnn_of_an_lstm_is_the_textbook_lstm(lengths):
    cell = tf.nn.rnn_cell.BasicLSTMCell(UNITS)
    x = tf.placeholder(tf.float32, [None, TIME, DEPTH])
    outputs, state = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
    kernel, bias = tf.trainable_variables()
    assert kernel.name == "rnn/basic_lstm_cell/kernel:0"
    assert bias.name == "rnn/basic_lstm_cell/bias:0"
    assert outputs.shape.as_list()[1:] == [TIME, UNITS]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        got, (c, h), w, b = sess.run([outputs, state, kernel, bias], {x: batch()})
    expected, want_c, want_h = numpy_lstm(batch(), w, b, lengths)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(c, want_c, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(h, want_h, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.nn.rnn_cell.BasicRNNCell(UNITS),
        lambda: tf.nn.rnn_cell.GRUCell(UNITS),
        lambda: tf.nn.rnn_cell.LSTMCell(UNITS, use_peepholes=True, cell_clip=0.5),
        lambda: tf.nn.rnn_cell.LSTMCell(UNITS, num_proj=2, proj_clip=0.1, state_is_tuple=False),
        lambda: tf.nn.rnn_cell.MultiRNNCell(
            [tf.nn.rnn_cell.BasicLSTMCell(UNITS), tf.nn.rnn_cell.GRUCell(2)]
        ),
        lambda: tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.GRUCell(DEPTH)),
    ],
)
def test_the_loop_and_the_unrolled_network_agree_in_values_and_gradients(make):
    x = tf.constant(batch())
    cell = make()
    with tf.variable_scope("net"):
        looped, loop_state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    with tf.variable_scope("net", reuse=True):
        unrolled, state = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)
    stacked = tf.stack(unrolled, axis=1)
    variables = tf.trainable_variables()
    first = tf.gradients(tf.reduce_sum(tf.square(looped)), variables)
    second = tf.gradients(tf.reduce_sum(tf.square(stacked)), variables)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        a, b, ga, gb = sess.run([[looped, loop_state], [stacked, state], first, second])
    tf.nest.map_structure(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-5, atol=1e-6), a, b)
    for p, q in zip(ga, gb, strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-6)


def test_a_training_step_of_a_recurrent_network_is_one_xla_call():
    x = tf.placeholder(tf.float32, [None, TIME, DEPTH])
    lengths = tf.placeholder(tf.int32, [None])
    outputs, _ = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(UNITS), x, sequence_length=lengths, dtype=tf.float32
    )
    train = tf.train.AdamOptimizer().minimize(tf.reduce_sum(tf.square(outputs)))
    feed = {x: batch(), lengths: [1, 5, 3]}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train, feed)
        before = sess._backend.xla_calls
        sess.run(train, feed)
        assert sess._backend.xla_calls == before + 1


def test_both_directions_see_the_sequence_from_both_ends():
    x = tf.constant(batch())
    lengths = tf.constant([2, 5, 3])
    (fw, bw), _ = tf.nn.bidirectional_dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(UNITS), tf.nn.rnn_cell.GRUCell(UNITS), x, lengths, dtype=tf.float32
    )
    with tf.variable_scope("bidirectional_rnn/bw", reuse=True) as scope:
        turned = tf.reverse_sequence(x, lengths, seq_axis=1, batch_axis=0)
        again, _ = tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(UNITS), turned, lengths, dtype=tf.float32, scope=scope
        )
    expected = tf.reverse_sequence(again, lengths, seq_axis=1, batch_axis=0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        got, want, forwards = sess.run([bw, expected, fw])
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert not np.allclose(got, forwards)
    assert not got[0, 2:].any()


@pytest.mark.parametrize("shape", [[None, 3], (None, 3), tf.TensorShape([None, 3])])
def test_a_cell_that_the_program_builds_makes_its_variables_once(shape: Any) -> None:
    cell = tf.nn.rnn_cell.GRUCell(2)
    with tf.variable_scope("around"):
        cell.build(shape)
    cell(tf.zeros([4, 3]), tf.zeros([4, 2]))
    cell(tf.zeros([4, 3]), tf.zeros([4, 2]))
    assert [v.op.name for v in tf.trainable_variables()] == [
        "around/gru_cell/gates/kernel",
        "around/gru_cell/gates/bias",
        "around/gru_cell/candidate/kernel",
        "around/gru_cell/candidate/bias",
    ]
