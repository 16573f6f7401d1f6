"""A client of servers that run already: `millrace server` on each machine, then this anywhere."""

import numpy as np
import tensorflow as tf

ps_hosts = ["localhost:2222"]
worker_hosts = ["localhost:2223", "localhost:2224"]

tf.app.flags.DEFINE_integer("task_index", 0, "the worker to connect to")
tf.app.flags.DEFINE_integer("train_steps", 500, "steps of all clients together")
FLAGS = tf.app.flags.FLAGS


def main(_):
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    device = tf.train.replica_device_setter(
        worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster
    )
    with tf.device(device):
        global_step = tf.train.get_or_create_global_step()
        x = tf.placeholder(tf.float32, [100])
        slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
        shift = tf.get_variable("shift", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(slope * x + shift - (0.1 * x + 0.3)))
        train = tf.train.GradientDescentOptimizer(0.3).minimize(loss, global_step=global_step)
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.train_steps)]
    target = "grpc://" + worker_hosts[FLAGS.task_index]
    with tf.train.MonitoredTrainingSession(target, FLAGS.task_index == 0, hooks=hooks) as session:
        while not session.should_stop():
            _, step, a, b = session.run(
                [train, global_step, slope, shift], {x: np.random.rand(100)}
            )
    print("client %d: y = %.3f x + %.3f after %d steps" % (FLAGS.task_index, a, b, step))


if __name__ == "__main__":
    tf.app.run()
