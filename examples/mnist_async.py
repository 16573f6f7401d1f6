"""An MLP learns MNIST: parameter servers hold the variables, workers train at their own pace."""

import os

import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "host:port of each ps, with commas")
flags.DEFINE_string("worker_hosts", "", "host:port of each worker, with commas")
flags.DEFINE_string("job_name", "", "ps or worker")
flags.DEFINE_integer("task_index", 0, "which of them")
flags.DEFINE_integer("train_steps", 4000, "steps of all workers together")
flags.DEFINE_integer("batch_size", 100, "images a step")
flags.DEFINE_string("train_dir", "/tmp/millrace-mnist", "checkpoints and summaries")
FLAGS = flags.FLAGS


def build(global_step):
    """The network: images, labels, training op, accuracy."""
    x = tf.placeholder(tf.float32, [None, 784], name="x")
    labels = tf.placeholder(tf.float32, [None, 10], name="labels")
    hidden = dense(x, 100)
    logits = dense(hidden, 10, None, "logits")
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    rate = tf.train.exponential_decay(0.005, global_step, 1000, 0.6)
    train = tf.train.AdamOptimizer(rate).minimize(loss, global_step=global_step)
    hits = tf.equal(tf.argmax(logits, 1), tf.argmax(labels, 1))
    accuracy = tf.reduce_mean(tf.cast(hits, tf.float32), name="accuracy")
    tf.summary.scalar("loss", loss)
    tf.summary.scalar("accuracy", accuracy)
    return x, labels, train, accuracy


def dense(value, units, activation=tf.nn.relu, name="hidden"):
    """A fully connected layer."""
    with tf.variable_scope(name):
        size = value.shape[1].value
        weights = tf.get_variable(
            "weights", [size, units], initializer=tf.truncated_normal_initializer(stddev=size**-0.5)
        )
        biases = tf.get_variable("biases", [units], initializer=tf.zeros_initializer())
        result = tf.matmul(value, weights) + biases
        return result if activation is None else activation(result)


def main(_):
    cluster = tf.train.ClusterSpec(
        {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    )
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    is_chief = FLAGS.task_index == 0
    mnist = input_data.read_data_sets("MNIST_data", one_hot=True)
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        global_step = tf.train.get_or_create_global_step()
        x, labels, train, accuracy = build(global_step)
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.train_steps)]
    test = {x: mnist.test.images, labels: mnist.test.labels}
    # A worker needs the ps tasks and itself: it does not wait for workers that are gone.
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.train.MonitoredTrainingSession(
        server.target,
        is_chief,
        checkpoint_dir=FLAGS.train_dir,
        hooks=hooks,
        save_checkpoint_steps=500,
        save_summaries_steps=50,
        config=config,
    ) as session:
        step = 0
        while not session.should_stop():
            images, answers = mnist.train.next_batch(FLAGS.batch_size)
            _, step = session.run([train, global_step], {x: images, labels: answers})
            if step % 100 < 2:
                print("step %d" % step)
    print("worker %d is done at step %d" % (FLAGS.task_index, step))
    if is_chief:
        with tf.Session(server.target, config=config) as session:
            print("test accuracy %.4f" % session.run(accuracy, test))
        print("checkpoints and summaries: %s" % os.path.abspath(FLAGS.train_dir))


if __name__ == "__main__":
    tf.app.run()
