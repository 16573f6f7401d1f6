"""An MLP learns MNIST in rounds: the gradients of all workers are averaged, then applied once."""

import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "host:port of each ps, with commas")
flags.DEFINE_string("worker_hosts", "", "host:port of each worker, with commas")
flags.DEFINE_string("job_name", "", "ps or worker")
flags.DEFINE_integer("task_index", 0, "which of them")
flags.DEFINE_integer("train_steps", 500, "rounds")
flags.DEFINE_integer("replicas_to_aggregate", 0, "gradients a round; 0 for one of each worker")
FLAGS = flags.FLAGS


def main(_):
    workers = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": workers})
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    is_chief = FLAGS.task_index == 0
    mnist = input_data.read_data_sets("MNIST_data", one_hot=True)
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        global_step = tf.train.get_or_create_global_step()
        x = tf.placeholder(tf.float32, [None, 784])
        labels = tf.placeholder(tf.float32, [None, 10])
        weights = tf.get_variable("weights", [784, 10], initializer=tf.zeros_initializer())
        biases = tf.get_variable("biases", [10], initializer=tf.zeros_initializer())
        logits = tf.matmul(x, weights) + biases
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.3),
            replicas_to_aggregate=FLAGS.replicas_to_aggregate or len(workers),
            total_num_replicas=len(workers),
        )
        train = optimizer.minimize(loss, global_step=global_step)
    hooks = [
        optimizer.make_session_run_hook(is_chief),
        tf.train.StopAtStepHook(last_step=FLAGS.train_steps),
    ]
    # A worker needs the ps tasks and itself: it does not wait for workers that are gone.
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.train.MonitoredTrainingSession(
        server.target, is_chief, hooks=hooks, config=config
    ) as session:
        while not session.should_stop():
            images, answers = mnist.train.next_batch(100)
            _, step, value = session.run([train, global_step, loss], {x: images, labels: answers})
            if step % 50 == 0:
                print("round %d: loss %.4f" % (step, value))
    print("worker %d is done" % FLAGS.task_index)


if __name__ == "__main__":
    tf.app.run()
