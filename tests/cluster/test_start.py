"""What tasks compile until the first step: nothing but the step."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import millrace as tf


def test_until_the_first_step_each_task_compiles_one_program(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    setter = tf.train.replica_device_setter(
        cluster=tf.train.ClusterSpec(cluster.spec), worker_device="/job:worker/task:0"
    )
    with tf.device(setter):
        x = tf.placeholder(tf.float32, [None, 784])
        y_ = tf.placeholder(tf.float32, [None, 10])
        start = np.random.default_rng(0).normal(size=[784, 100]).astype(np.float32) / 28
        hidden = tf.nn.relu(tf.nn.xw_plus_b(x, tf.Variable(start), tf.Variable(tf.zeros([100]))))
        logits = tf.matmul(hidden, tf.Variable(tf.zeros([100, 10])))
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=logits))
        global_step = tf.train.get_or_create_global_step()
        step = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=global_step)
    feed = {x: np.ones([100, 784]), y_: np.eye(10)[np.arange(100) % 10]}
    compiled: list[str] = []

    def note(event: str, _: float, **details: Any) -> None:
        if event.endswith("/backend_compile_duration"):
            compiled.append(details.get("fun_name", "?"))

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        with tf.train.MonitoredTrainingSession(cluster.target("worker")) as sess:
            assert compiled == []
            sess.run([step, loss], feed)
            assert len(compiled) == 2
            sess.run([step, loss], feed)  # and the next ones find all that they need
            assert len(compiled) == 2
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
