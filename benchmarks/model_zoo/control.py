"""Serving, many small variables, reinforcement learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from model_zoo.model import Model, dense, endless


def inference(tf: Any, worker: str = "") -> Model:
    """An MLP that answers requests of changing sizes."""
    x = tf.placeholder(tf.float32, [None, 256])
    hidden = dense(tf, dense(tf, x, 256, "l0", tf.nn.relu), 256, "l1", tf.nn.relu)
    answers = tf.nn.softmax(dense(tf, hidden, 10, "out"))
    checked = tf.reduce_mean(tf.reduce_max(answers, 1))

    def make(random: np.random.RandomState) -> dict:
        return {x: random.rand(int(random.randint(1, 129)), 256).astype(np.float32)}

    return Model(tf.no_op(), checked, endless(make))


def many_variables(tf: Any, worker: str = "") -> Model:
    """A chain of 250 small layers, each with weights and a bias; batch sizes change."""
    x = tf.placeholder(tf.float32, [None, 8])
    value = x
    for i in range(250):
        value = value + 0.1 * dense(tf, value, 8, f"l{i}", tf.tanh)
    loss = tf.reduce_mean(tf.square(value - 1.0))
    step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        return {x: random.rand(int(random.randint(24, 33)), 8).astype(np.float32)}

    return Model(step, loss, endless(make))


def a3c(tf: Any, worker: str = "") -> Model:
    """An actor and a critic that share a layer; a local copy makes rollouts of 1 to 20 steps."""
    x = tf.placeholder(tf.float32, [None, 32])
    action, reward = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])

    def network(name: str, trainable: bool) -> tuple:
        with tf.variable_scope(name):
            hidden = dense(tf, x, 64, "hidden", tf.nn.elu)
            logits, value = dense(tf, hidden, 6, "policy"), dense(tf, hidden, 1, "value")
        return logits, value[:, 0], tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, name)

    _, _, shared = network("shared", True)
    with tf.device(worker):
        logits, value, local = network("local", False)
    sync = tf.group(*[tf.assign(a, b) for a, b in zip(local, shared, strict=True)])
    log_policy = tf.nn.log_softmax(logits)
    chosen = tf.reduce_sum(log_policy * tf.one_hot(action, 6), 1)
    advantage = reward - value
    entropy = -tf.reduce_sum(tf.nn.softmax(logits) * log_policy)
    loss = (
        -tf.reduce_sum(chosen * tf.stop_gradient(advantage))
        + 0.25 * tf.reduce_sum(tf.square(advantage))
        - 0.01 * entropy
    )
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, local), 40.0)
    optimizer = tf.train.RMSPropOptimizer(1e-3, decay=0.99, epsilon=0.1)
    step = optimizer.apply_gradients(zip(gradients, shared, strict=True))

    def make(random: np.random.RandomState) -> dict:
        count = int(random.randint(1, 21))
        return {
            x: random.rand(count, 32).astype(np.float32),
            action: random.randint(0, 6, count),
            reward: random.rand(count).astype(np.float32),
        }

    return Model(step, loss, endless(make), sync)
