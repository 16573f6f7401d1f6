"""In-graph replication: one tower a device of this process, gradients averaged, one update."""

import numpy as np
import tensorflow as tf

TOWERS = 4


def main(_):
    rng = np.random.RandomState(0)
    true = rng.rand(10, 1).astype(np.float32)
    x = tf.placeholder(tf.float32, [None, 10])
    y = tf.placeholder(tf.float32, [None, 1])
    with tf.device("/cpu:0"):
        weights = tf.get_variable("weights", [10, 1], initializer=tf.zeros_initializer())
        optimizer = tf.train.GradientDescentOptimizer(0.3)
    parts = zip(tf.split(x, TOWERS), tf.split(y, TOWERS))
    gradients = []
    for i, (part_x, part_y) in enumerate(parts):
        with tf.device("/cpu:%d" % i), tf.name_scope("tower_%d" % i):
            loss = tf.reduce_mean(tf.square(tf.matmul(part_x, weights) - part_y))
            gradients.append(optimizer.compute_gradients(loss, [weights])[0][0])
    with tf.device("/cpu:0"):
        mean = tf.add_n(gradients) / TOWERS
        train = optimizer.apply_gradients([(mean, weights)])
    config = tf.ConfigProto(device_count={"CPU": TOWERS})
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(500):
            inputs = rng.rand(64, 10).astype(np.float32)
            session.run(train, {x: inputs, y: inputs @ true})
        error = np.abs(session.run(weights) - true).max()
    print("%d towers; largest error of a weight: %.4f" % (TOWERS, error))


if __name__ == "__main__":
    tf.app.run()
