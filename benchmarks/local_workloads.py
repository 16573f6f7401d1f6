"""Workloads of the local benchmark, written against TF1's API.

Run as ``python local_workloads.py millrace|tensorflow WORKLOAD``; prints one line of JSON:
seconds per step (the best of several spans, so that a busy machine disturbs less), and the
loss at the end, so that nobody is fast by not training.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np


def load(library: str):
    """The `tf` module of a library."""
    if library == "millrace":
        import millrace

        return millrace
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow.compat.v1 as tensorflow

    tensorflow.disable_v2_behavior()
    return tensorflow


def digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images that a model can learn from: a noisy pattern for each label."""
    random = np.random.RandomState(0)
    patterns = random.rand(10, 784).astype(np.float32)
    labels = random.randint(0, 10, count)
    images = 0.5 * patterns[labels] + 0.5 * random.rand(count, 784).astype(np.float32)
    return images.astype(np.float32), np.eye(10, dtype=np.float32)[labels]


def weights(shape: list[int], seed: int) -> np.ndarray:
    """The same first weights for every library."""
    scale = 1.0 / np.sqrt(np.prod(shape[:-1]))
    return (np.random.RandomState(seed).randn(*shape) * scale).astype(np.float32)


def mlp(tf):
    """The seed programs' MLP: 784-100-10, batch 100, Adam."""
    x = tf.placeholder(tf.float32, [None, 784])
    y_ = tf.placeholder(tf.float32, [None, 10])
    hidden = tf.nn.relu(
        tf.nn.xw_plus_b(x, tf.Variable(weights([784, 100], 1)), tf.Variable(tf.zeros([100])))
    )
    y = tf.nn.softmax(
        tf.nn.xw_plus_b(hidden, tf.Variable(weights([100, 10], 2)), tf.Variable(tf.zeros([10])))
    )
    loss = -tf.reduce_sum(y_ * tf.log(tf.clip_by_value(y, 1e-10, 1.0)))
    step = tf.Variable(0, trainable=False)
    train = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    return x, y_, train, loss, [train, step]


def cnn_loss(tf):
    """A LeNet-size CNN: two 5x5 convolutions, 2x2 pooling, 1024 hidden units."""
    x = tf.placeholder(tf.float32, [None, 784])
    y_ = tf.placeholder(tf.float32, [None, 10])
    image = tf.reshape(x, [-1, 28, 28, 1])

    def layer(value, shape, seed):
        w, b = tf.Variable(weights(shape, seed)), tf.Variable(tf.zeros(shape[-1:]))
        conv = tf.nn.conv2d(value, w, strides=[1, 1, 1, 1], padding="SAME")
        active = tf.nn.relu(tf.nn.bias_add(conv, b))
        return tf.nn.max_pool(active, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")

    flat = tf.reshape(layer(layer(image, [5, 5, 1, 32], 1), [5, 5, 32, 64], 2), [-1, 7 * 7 * 64])
    dense = tf.nn.relu(
        tf.matmul(flat, tf.Variable(weights([3136, 1024], 3))) + tf.Variable(tf.zeros([1024]))
    )
    logits = tf.matmul(dense, tf.Variable(weights([1024, 10], 4))) + tf.Variable(tf.zeros([10]))
    return x, y_, tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=logits))


def cnn(tf):
    """The CNN with plain gradient descent."""
    x, y_, loss = cnn_loss(tf)
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    return x, y_, train, loss, [train]


def train_seconds(tf, model, steps: int, spans: int) -> tuple[float, float]:
    """Seconds per training step in the best span, and the last loss."""
    images, labels = digits(5000)
    with tf.Graph().as_default():
        x, y_, _, loss, fetches = model(tf)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            feeds = [{x: images[i : i + 100], y_: labels[i : i + 100]} for i in range(0, 5000, 100)]
            for i in range(3):
                sess.run(fetches, feeds[i])
            best, count = float("inf"), 3
            for _ in range(spans):
                start = time.perf_counter()
                for _ in range(steps):
                    sess.run(fetches, feeds[count % 50])
                    count += 1
                best = min(best, (time.perf_counter() - start) / steps)
            return best, float(np.mean([sess.run(loss, feed) for feed in feeds[:5]]))


def run_seconds(tf, fetches, feed, steps: int = 500, spans: int = 8) -> float:
    """Seconds per `Session.run` in the best span."""
    with tf.Session() as sess:
        for _ in range(20):
            sess.run(fetches, feed)
        best = float("inf")
        for _ in range(spans):
            start = time.perf_counter()
            for _ in range(steps):
                sess.run(fetches, feed)
            best = min(best, (time.perf_counter() - start) / steps)
        return best


def measure(tf, workload: str) -> dict:
    """One workload's figures."""
    if workload == "mlp":
        seconds, loss = train_seconds(tf, mlp, steps=200, spans=8)
        return {"seconds": seconds, "loss": loss}
    if workload == "cnn":
        seconds, loss = train_seconds(tf, cnn, steps=10, spans=5)
        return {"seconds": seconds, "loss": loss}
    with tf.Graph().as_default():
        if workload == "constant":
            return {"seconds": run_seconds(tf, tf.constant(1.0), None)}
        x = tf.placeholder(tf.float32, [None, 10])
        fetches = [x * float(i) for i in range(10)]
        return {"seconds": run_seconds(tf, fetches, {x: np.ones([1, 10], np.float32)})}


if __name__ == "__main__":
    print(json.dumps(measure(load(sys.argv[1]), sys.argv[2])))
