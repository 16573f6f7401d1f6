"""LeNet learns digits with slim: layers under an arg_scope, `slim.learning.train` on a cluster."""

import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

slim = tf.contrib.slim

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "host:port of each ps, with commas")
flags.DEFINE_string("worker_hosts", "", "host:port of each worker, with commas")
flags.DEFINE_string("job_name", "", "ps or worker")
flags.DEFINE_integer("task_index", 0, "which of them")
flags.DEFINE_integer("train_steps", 200, "steps of all workers together")
flags.DEFINE_integer("batch_size", 32, "images a step")
FLAGS = flags.FLAGS


def lenet(images):
    """The network's logits."""
    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected],
        weights_regularizer=slim.l2_regularizer(5e-5),
        normalizer_fn=slim.batch_norm,
    ):
        net = slim.conv2d(images, 8, [5, 5], scope="conv1")
        net = slim.max_pool2d(net, [2, 2], scope="pool1")
        net = slim.conv2d(net, 16, [5, 5], scope="conv2")
        net = slim.max_pool2d(net, [2, 2], scope="pool2")
        net = slim.fully_connected(slim.flatten(net), 64, scope="fc3")
    return slim.fully_connected(net, 10, activation_fn=None, scope="logits")


def main(_):
    cluster = tf.train.ClusterSpec(
        {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    )
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    mnist = input_data.read_data_sets("MNIST_data", one_hot=True)
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        images = tf.constant(mnist.train.images[:2000].reshape(-1, 28, 28, 1))
        labels = tf.constant(mnist.train.labels[:2000])
        rows = tf.random_uniform([FLAGS.batch_size], maxval=2000, dtype=tf.int32)
        logits = lenet(tf.gather(images, rows))
        slim.losses.softmax_cross_entropy(logits, tf.gather(labels, rows))
        train_op = slim.learning.create_train_op(
            slim.losses.get_total_loss(), tf.train.AdamOptimizer(0.003), clip_gradient_norm=4.0
        )
    loss = slim.learning.train(
        train_op,
        None,
        master=server.target,
        is_chief=FLAGS.task_index == 0,
        number_of_steps=FLAGS.train_steps,
        log_every_n_steps=50,
    )
    print("worker %d is done: loss %.3f" % (FLAGS.task_index, loss), flush=True)


if __name__ == "__main__":
    tf.app.run()
