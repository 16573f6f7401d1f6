"""Measures every new checkpoint of mnist_async.py on the test images, while that trains."""

import tensorflow as tf
from mnist_async import build
from tensorflow.examples.tutorials.mnist import input_data

tf.app.flags.DEFINE_integer("timeout", 60, "seconds without a new checkpoint after which to end")
tf.app.flags.DEFINE_integer("count", 0, "checkpoints to measure; 0 for all that come")
FLAGS = tf.app.flags.FLAGS


def main(_):
    mnist = input_data.read_data_sets("MNIST_data", one_hot=True)
    global_step = tf.train.get_or_create_global_step()
    x, labels, _, accuracy = build(global_step)
    saver = tf.train.Saver()
    done = 0
    with tf.Session() as session:
        for path in tf.train.checkpoints_iterator(FLAGS.train_dir, timeout=FLAGS.timeout):
            saver.restore(session, path)
            step, value = session.run(
                [global_step, accuracy], {x: mnist.test.images, labels: mnist.test.labels}
            )
            print("step %d: test accuracy %.4f" % (step, value))
            done += 1
            if done == FLAGS.count:
                break


if __name__ == "__main__":
    tf.app.run()
