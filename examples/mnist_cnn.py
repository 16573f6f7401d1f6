"""A LeNet learns MNIST: on a cluster when hosts are given, else in this process."""

import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "host:port of each ps, with commas")
flags.DEFINE_string("worker_hosts", "", "host:port of each worker, with commas")
flags.DEFINE_string("job_name", "worker", "ps or worker")
flags.DEFINE_integer("task_index", 0, "which of them")
flags.DEFINE_integer("train_steps", 300, "steps of all workers together")
FLAGS = flags.FLAGS


def layer(name, value, shape, op):
    """Weights, biases, and what `op` makes of them."""
    with tf.variable_scope(name):
        stddev = (2.0 / (shape[0] * shape[1] * (shape[2] if len(shape) == 4 else 1))) ** 0.5
        weights = tf.get_variable(
            "weights", shape, initializer=tf.truncated_normal_initializer(stddev=min(stddev, 0.1))
        )
        biases = tf.get_variable("biases", shape[-1:], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(op(value, weights), biases)


def convolve(value, weights):
    return tf.nn.conv2d(value, weights, [1, 1, 1, 1], "SAME")


def shrink(value):
    return tf.nn.max_pool(tf.nn.relu(value), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")


def main(_):
    target, device = "", None
    if FLAGS.ps_hosts:
        cluster = tf.train.ClusterSpec(
            {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
        )
        server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
        if FLAGS.job_name == "ps":
            server.join()
            return
        target, device = server.target, tf.train.replica_device_setter(cluster=cluster)
    mnist = input_data.read_data_sets("MNIST_data", one_hot=True)
    with tf.device(device):
        global_step = tf.train.get_or_create_global_step()
        x = tf.placeholder(tf.float32, [None, 784])
        labels = tf.placeholder(tf.float32, [None, 10])
        images = tf.reshape(x, [-1, 28, 28, 1])
        small = shrink(layer("conv1", images, [5, 5, 1, 32], convolve))
        smaller = shrink(layer("conv2", small, [5, 5, 32, 64], convolve))
        flat = tf.reshape(smaller, [-1, 7 * 7 * 64])
        hidden = tf.nn.relu(layer("hidden", flat, [7 * 7 * 64, 256], tf.matmul))
        logits = layer("logits", hidden, [256, 10], tf.matmul)
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss, global_step=global_step)
        hits = tf.equal(tf.argmax(logits, 1), tf.argmax(labels, 1))
        accuracy = tf.reduce_mean(tf.cast(hits, tf.float32))
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.train_steps)]
    # A worker needs the ps tasks and itself: it does not wait for workers that are gone.
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.train.MonitoredTrainingSession(
        target, FLAGS.task_index == 0, hooks=hooks, config=config
    ) as session:
        while not session.should_stop():
            batch, answers = mnist.train.next_batch(100)
            _, step, value = session.run(
                [train, global_step, accuracy], {x: batch, labels: answers}
            )
            if step % 20 == 0:
                print("step %d: accuracy of the batch %.2f" % (step, value))
    print("worker %d is done" % FLAGS.task_index)


if __name__ == "__main__":
    tf.app.run()
