"""`tf.layers` where TensorFlow 2 has no figures: placement of parts, and what 1.15 said."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf


def test_parts_of_a_kernel_go_to_the_ps_tasks_in_turn() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 4])
        setter = tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")
        with (
            tf.device(setter),
            tf.variable_scope("net", partitioner=tf.fixed_size_partitioner(2)),
        ):
            y = tf.layers.dense(x, 3)
        placed = {v.op.name: v.device for v in tf.global_variables()}
        assert placed == {
            "net/dense/kernel/part_0": "/job:ps/task:0",
            "net/dense/kernel/part_1": "/job:ps/task:1",
            "net/dense/bias/part_0": "/job:ps/task:0",
            "net/dense/bias/part_1": "/job:ps/task:1",
        }
        assert y.op.device == "/job:worker/task:0"


def test_a_training_step_with_update_ops_learns_and_moves_the_averages() -> None:
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [None, 2])
        hidden = tf.layers.batch_normalization(tf.layers.dense(x, 8), training=True)
        loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.nn.relu(hidden), 1) - x[:, :1]))
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train = tf.train.AdamOptimizer(0.05).minimize(loss)
        data = np.random.RandomState(0).randn(64, 2).astype(np.float32) + 3
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            first = session.run(loss, {x: data})
            for _ in range(60):
                session.run(train, {x: data})
            assert session.run(loss, {x: data}) < first / 10
            (mean,) = session.run(
                [v for v in tf.global_variables() if v.name.endswith("moving_mean:0")]
            )
        assert np.abs(mean).max() > 0.1


def test_keras_style_layers_use_no_variable_scope() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 2])
        with tf.layers.experimental.keras_style_scope():
            layer = tf.layers.Dense(3, name="d")
            layer(x)
            other = tf.layers.Dense(3, name="d")
            other(x)
        assert layer.kernel is not other.kernel
        with pytest.raises(ValueError, match="scope argument not allowed"):
            layer(x, scope="s")


def test_a_layer_of_an_unknown_argument_says_which() -> None:
    with pytest.raises(TypeError, match="Keyword argument not understood: 'colour'"):
        tf.layers.Dense(3, colour="red")
