"""A table in parts on all parameter servers; a step reads and updates only the rows it needs."""

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "host:port of each ps, with commas")
flags.DEFINE_string("worker_hosts", "", "host:port of each worker, with commas")
flags.DEFINE_string("job_name", "", "ps or worker")
flags.DEFINE_integer("task_index", 0, "which of them")
flags.DEFINE_integer("rows", 100000, "rows of the table")
flags.DEFINE_integer("train_steps", 200, "steps of all workers together")
FLAGS = flags.FLAGS


def main(_):
    ps = FLAGS.ps_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps, "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        global_step = tf.train.get_or_create_global_step()
        table = tf.get_variable(
            "table",
            [FLAGS.rows, 16],
            initializer=tf.random_uniform_initializer(-0.1, 0.1),
            partitioner=tf.fixed_size_partitioner(len(ps)),
        )
        ids = tf.placeholder(tf.int64, [None, 5])
        wanted = tf.placeholder(tf.float32, [None])
        rows = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, axis=[1, 2]) - wanted))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=global_step)
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.train_steps)]
    rng = np.random.RandomState(FLAGS.task_index)
    # A worker needs the ps tasks and itself: it does not wait for workers that are gone.
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.train.MonitoredTrainingSession(
        server.target, FLAGS.task_index == 0, hooks=hooks, config=config
    ) as session:
        while not session.should_stop():
            some = rng.randint(0, 1000, size=(64, 5))
            answers = (some % 7).mean(axis=1).astype(np.float32)
            _, step, value = session.run([train, global_step, loss], {ids: some, wanted: answers})
            if step % 50 == 0:
                print("step %d: loss %.4f" % (step, value))
    print("worker %d is done" % FLAGS.task_index)


if __name__ == "__main__":
    tf.app.run()
