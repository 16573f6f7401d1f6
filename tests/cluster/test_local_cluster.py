"""`tf.test.create_local_cluster`."""

from __future__ import annotations

import millrace as tf


def test_the_servers_of_a_local_cluster_train_together() -> None:
    workers, parameter_servers = tf.test.create_local_cluster(num_workers=2, num_ps=1)
    assert [len(workers), len(parameter_servers)] == [2, 1]
    try:
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                v = tf.Variable(1.0)
            with tf.device("/job:worker/task:1"):
                update = v.assign_add(2.0)
            with tf.Session(workers[0].target) as sess:
                sess.run(v.initializer)
                sess.run(update)
                assert sess.run(v) == 3.0
    finally:
        for server in [*workers, *parameter_servers]:
            server.stop()
