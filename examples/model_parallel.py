"""Model parallelism: one network whose layers are on three tasks."""

import socket

import numpy as np
import tensorflow as tf


def local_cluster(count):
    """A cluster of `count` tasks in this process, and its servers."""
    holders = [socket.socket() for _ in range(count)]
    for holder in holders:
        holder.bind(("localhost", 0))
    addresses = ["localhost:%d" % holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    cluster = tf.train.ClusterSpec({"worker": addresses})
    return [tf.train.Server(cluster, "worker", index) for index in range(count)]


def main(_):
    servers = local_cluster(3)
    rng = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, 8])
    y = tf.placeholder(tf.float32, [None, 1])
    value = x
    for task, size in enumerate([16, 16, 1]):
        with tf.device("/job:worker/task:%d" % task), tf.variable_scope("layer_%d" % task):
            shape = [value.shape[1].value, size]
            initial = rng.normal(scale=shape[0] ** -0.5, size=shape).astype(np.float32)
            weights = tf.get_variable("weights", initializer=initial)
            value = tf.matmul(value, weights)
            if size > 1:
                value = tf.nn.tanh(value)
    loss = tf.reduce_mean(tf.square(value - y))
    optimizer = tf.train.AdamOptimizer(0.01)
    train = optimizer.minimize(loss, colocate_gradients_with_ops=True)
    with tf.Session(servers[0].target) as session:
        session.run(tf.global_variables_initializer())
        for step in range(301):
            inputs = rng.normal(size=(64, 8)).astype(np.float32)
            answers = np.sin(inputs.sum(axis=1, keepdims=True))
            _, error = session.run([train, loss], {x: inputs, y: answers})
            if step % 100 == 0:
                print("step %d: loss %.4f" % (step, error))
    for server in servers:
        server.stop()


if __name__ == "__main__":
    tf.app.run()
