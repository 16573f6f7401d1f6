"""What tasks compile until the first step: nothing but the step."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import jax
import numpy as np
import pytest

import millrace as tf


def test_until_the_first_step_each_task_compiles_one_program(
    make_cluster: Any, compiled: list[str]
) -> None:
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
    with tf.train.MonitoredTrainingSession(cluster.target("worker")) as sess:
        assert compiled == []
        sess.run([step, loss], feed)
        assert len(compiled) == 2
        sess.run([step, loss], feed)  # and the next ones find all that they need
        assert len(compiled) == 2


def test_a_ps_compiles_its_update_while_the_worker_is_at_the_gradient(
    make_cluster: Any, until: Any, compiled: list[str]
) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    with tf.device("/job:ps/task:0"):
        weights = tf.Variable(tf.ones([30, 20]))
    with tf.device("/job:worker/task:0"):
        queue = tf.FIFOQueue(1, [tf.float32], [[4, 30]])
        loss = tf.reduce_mean(tf.square(tf.matmul(queue.dequeue(), weights)))
        x = tf.placeholder(tf.float32, [4, 30])
        enqueue = queue.enqueue([x])
        step = tf.train.AdagradOptimizer(0.1).minimize(loss)
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        compiled.clear()
        losses: list[float] = []
        thread = threading.Thread(target=lambda: losses.append(sess.run([loss, step])[0]))
        thread.start()
        try:
            until(lambda: len(compiled) == 1)  # though the worker has nothing to compute with
        finally:
            sess.run(enqueue, {x: np.ones([4, 30])})
            thread.join()
        assert losses == [900.0]
        assert len(compiled) == 2
        sess.run(enqueue, {x: np.ones([4, 30])})
        assert sess.run([loss, step])[0] < 900.0
        assert len(compiled) == 2


def test_what_cannot_be_compiled_ahead_is_told_when_it_is_run(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    with tf.device("/job:ps/task:0"):
        weights = tf.Variable(tf.ones([3]), validate_shape=False)
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [2])
        sent = tf.square(x)
    with tf.device("/job:ps/task:0"):
        update = tf.assign_add(weights, tf.tile(sent, [2])).op
        grow = tf.assign(weights, tf.zeros([4]), validate_shape=False).op
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(weights.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="AssignAdd"):
            sess.run(update, {x: [1, 2]})
        sess.run(grow)
        sess.run(update, {x: [1, 2]})
        assert sess.run(weights).tolist() == [1, 4, 1, 4]


def test_a_process_compiles_what_all_workers_do_once(
    make_cluster: Any, compiled: list[str]
) -> None:
    cluster = make_cluster({"ps": 1, "worker": 3})
    with contextlib.ExitStack() as sessions:
        for index in range(3):
            with tf.Graph().as_default():
                with tf.device("/job:ps/task:0"):
                    weights = tf.get_variable("w", initializer=tf.ones([31, 7]))
                with tf.device(f"/job:worker/task:{index}"):
                    x = tf.placeholder(tf.float32, [None, 31])
                    loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
                step = tf.train.MomentumOptimizer(0.001, 0.9).minimize(loss)
                initialize = tf.global_variables_initializer()
                sess = sessions.enter_context(tf.Session(cluster.target("worker", index)))
            if index == 0:
                sess.run(initialize)
            before = sess.run(weights)
            sess.run(step, {x: np.ones([4, 31])})
            assert (sess.run(weights) < before).all()
            assert len(compiled) == 2  # the update, and the gradient: all are in one process


def test_other_shapes_than_were_known_ahead_get_a_program_of_their_own(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    with tf.device("/job:ps/task:0"):
        weights = tf.Variable(tf.ones([3]))
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [None])
        sent = tf.square(x)
        sent.set_shape([3])  # which need not be so
    with tf.device("/job:ps/task:0"):
        update = tf.assign_add(weights, sent).op
        grow = tf.assign(weights, tf.zeros([4]), validate_shape=False).op
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(weights.initializer)
        sess.run(update, {x: [1, 2, 3]})
        assert sess.run(weights).tolist() == [2, 5, 10]
        sess.run(grow)
        for times in (1, 2):
            sess.run(update, {x: [1, 2, 3, 4]})
            assert sess.run(weights).tolist() == [times * 1, times * 4, times * 9, times * 16]


def test_what_a_step_computes_is_compiled_before_it_reads_variables_of_others(
    make_cluster: Any,
) -> None:
    """Else the first gradient of a worker that comes later is hundreds of steps old."""
    cluster = make_cluster({"ps": 1, "worker": 1})
    with tf.device("/job:ps/task:0"):
        weights = tf.Variable(tf.ones([30, 20]))
        other_step = tf.assign(weights, tf.fill([30, 20], 3.0))
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [None, 30])
        loss = tf.reduce_mean(tf.matmul(x, weights))
    feed = {x: np.ones([4, 30], np.float32)}
    with tf.Session(cluster.target("worker")) as sess, tf.Session(cluster.target("ps")) as other:
        sess.run(weights.initializer)
        other.run(other_step)
        sess.run(weights.initializer)
        compiles: list[str] = []

        def others_go_on(event: str, _: float, **details: Any) -> None:
            if event.endswith("/backend_compile_duration"):
                compiles.append(details.get("fun_name", "?"))
                other.run(other_step)

        jax.monitoring.register_event_duration_secs_listener(others_go_on)
        try:
            assert sess.run(loss, feed) == 90.0
        finally:
            jax.monitoring.unregister_event_duration_listener(others_go_on)
        assert len(compiles) == 1
