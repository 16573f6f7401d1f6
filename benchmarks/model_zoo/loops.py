"""Loops over time whose lengths change, with gradients, and conditionals."""

from __future__ import annotations

from typing import Any

import numpy as np

from model_zoo.model import Model, dense, endless


def _series(random: np.random.RandomState, batch: int, least: int, most: int) -> np.ndarray:
    length = random.randint(least, most + 1)
    return random.randn(batch, length, 16).astype(np.float32)


def dynamic_rnn(tf: Any, worker: str = "") -> Model:
    """An LSTM over series of changing length and number, clipped Adam."""
    x = tf.placeholder(tf.float32, [None, None, 16])
    y_ = tf.placeholder(tf.float32, [None, 1])
    cell = tf.nn.rnn_cell.BasicLSTMCell(64)
    _, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(dense(tf, state.h, 1, "out") - y_))
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    step = tf.train.AdamOptimizer(0.003).apply_gradients(zip(gradients, variables, strict=True))

    def make(random: np.random.RandomState) -> dict:
        batch = int(random.randint(24, 33))
        series = _series(random, batch, 8, 40)
        return {x: series, y_: series[:, 0, :1]}

    return Model(step, loss, endless(make))


def while_gradient(tf: Any, worker: str = "") -> Model:
    """A recurrence written by hand with while_loop and a TensorArray."""
    x = tf.placeholder(tf.float32, [None, None, 16])
    y_ = tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [48, 32])
    b = tf.get_variable("b", [32], initializer=tf.zeros_initializer())
    steps = tf.transpose(x, [1, 0, 2])
    count = tf.shape(steps)[0]
    rows = tf.TensorArray(tf.float32, count).unstack(steps)

    def body(i: Any, h: Any) -> Any:
        return i + 1, tf.tanh(tf.matmul(tf.concat([rows.read(i), h], 1), w) + b)

    first = tf.zeros([tf.shape(x)[0], 32])
    first.set_shape([None, 32])
    _, last = tf.while_loop(lambda i, h: i < count, body, [0, first])
    loss = tf.reduce_mean(tf.square(dense(tf, last, 1, "out") - y_))
    step = tf.train.GradientDescentOptimizer(0.05).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        series = _series(random, 32, 5, 30)
        return {x: series, y_: series[:, -1, :1]}

    return Model(step, loss, endless(make))


def scan_gradient(tf: Any, worker: str = "") -> Model:
    """A recurrence with scan, of which all states are used."""
    x = tf.placeholder(tf.float32, [None, None, 16])
    w = tf.get_variable("w", [16, 16])
    steps = tf.transpose(x, [1, 0, 2])
    states = tf.scan(
        lambda h, row: tf.tanh(tf.matmul(h, w) + row), steps, initializer=tf.zeros_like(steps[0])
    )
    loss = tf.reduce_mean(tf.square(states[:-1] - steps[1:]))
    step = tf.train.AdamOptimizer(0.01).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        return {x: _series(random, 32, 5, 30)}

    return Model(step, loss, endless(make))


def cond_while(tf: Any, worker: str = "") -> Model:
    """Newton steps until they are small, and a branch that the data chooses."""
    x = tf.placeholder(tf.float32, [None, 16])
    w = tf.get_variable("w", [16, 16])
    target = tf.reduce_mean(tf.square(tf.matmul(x, w)))
    root = tf.while_loop(
        lambda r, i: tf.logical_and(tf.abs(r * r - target) > 1e-5, i < 50),
        lambda r, i: (0.5 * (r + target / r), i + 1),
        [tf.maximum(target, 1.0), 0],
    )[0]
    loss = tf.cond(
        tf.reduce_sum(x) > 0.0,
        lambda: tf.reduce_mean(tf.square(tf.matmul(x, w) - x)),
        lambda: tf.reduce_mean(tf.abs(tf.matmul(x, w) + x)),
    )
    loss = loss + 0.1 * tf.stop_gradient(root)
    optimizer = tf.train.GradientDescentOptimizer(0.05)
    gradients = optimizer.compute_gradients(loss)
    # Else the loop may read the variable before or after its update.
    with tf.control_dependencies([loss]):
        step = optimizer.apply_gradients(gradients)

    def make(random: np.random.RandomState) -> dict:
        return {x: random.randn(int(random.randint(16, 65)), 16).astype(np.float32)}

    return Model(step, loss, endless(make))
