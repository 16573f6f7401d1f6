"""A training whose every step can be told from the state: it counts, and nothing is ever lost.

Each step of a worker adds one to a counter on every parameter server, one to a row there that
names the worker and the step, and makes an update of Adagrad beside them. In rounds its gradients
do the same: every round takes one from a counter (`rounds`), and the gradient of each step one from
a row of its own (`pushed`). A worker writes down a step when its `session.run` has returned.
Whoever compares all this with what was written down sees steps and rounds that were lost, and those
that were applied twice (`standby_chaos.py` does).

Flags: those of TensorFlow's own examples, `--folder` for what is written, `--sync` for rounds.
"""

import os
import time

import numpy as np

import millrace as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "")
flags.DEFINE_string("worker_hosts", "", "")
flags.DEFINE_string("job_name", "", "")
flags.DEFINE_integer("task_index", 0, "")
flags.DEFINE_string("folder", "", "")
flags.DEFINE_integer("size", 1000, "elements of the variable that Adagrad updates")
flags.DEFINE_integer("capacity", 100_000, "steps of a worker that have a row")
flags.DEFINE_boolean("sync", False, "")
FLAGS = flags.FLAGS


def main(_):
    cluster = tf.train.ClusterSpec(
        {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    )
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    work(server, cluster)


def work(server, cluster):
    me, workers = FLAGS.task_index, cluster.num_tasks("worker")
    number = tf.placeholder(tf.int32, [], name="number")
    counts, rows, updates = [], [], []
    losses = []
    for i in range(cluster.num_tasks("ps")):
        with tf.device(f"/job:ps/task:{i}"):
            count = tf.get_variable(f"count_{i}", [], tf.int64, tf.zeros_initializer())
            row = tf.get_variable(
                f"rows_{i}", [workers, FLAGS.capacity], tf.int32, tf.zeros_initializer()
            )
            weights = tf.get_variable(
                f"weights_{i}", [FLAGS.size], tf.float32, tf.ones_initializer()
            )
            counts.append(count)
            rows.append(row)
            updates.append(tf.assign_add(count, 1))
            updates.append(tf.scatter_nd_add(row, [[me, number]], [1]))
            if FLAGS.sync:
                rounds = tf.get_variable(f"rounds_{i}", [], tf.float32, tf.zeros_initializer())
                pushed = tf.get_variable(
                    f"pushed_{i}", [workers * FLAGS.capacity], tf.float32, tf.zeros_initializer()
                )
                row_of_step = tf.gather(pushed, [me * FLAGS.capacity + number])
        with tf.device(f"/job:worker/task:{me}"):
            if FLAGS.sync:
                losses += [rounds, tf.reduce_sum(row_of_step)]
            losses.append(tf.reduce_mean(tf.square(weights)) * tf.to_float(number % 7 + 1))
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdagradOptimizer(0.01)
    hooks = []
    if FLAGS.sync:
        optimizer = tf.train.GradientDescentOptimizer(1.0)
        optimizer = tf.train.SyncReplicasOptimizer(optimizer, workers, total_num_replicas=workers)
        # No worker is ahead of a round: else gradients of another one would be dropped as stale.
        hooks.append(optimizer.make_session_run_hook(me == 0, num_tokens=0))
    with tf.device(f"/job:worker/task:{me}"):
        train = tf.group(optimizer.minimize(tf.add_n(losses), global_step=step), *updates)

    history = os.path.join(FLAGS.folder, f"history-{me}")
    begun = last_of(history)
    over, done = (os.path.join(FLAGS.folder, name) for name in ("over", f"done-{me}"))
    with tf.train.MonitoredTrainingSession(
        server.target,
        is_chief=me == 0,
        checkpoint_dir=os.path.join(FLAGS.folder, "model"),
        save_checkpoint_secs=3600,
        save_summaries_steps=None,
        hooks=hooks,
        config=tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{me}"]),
    ) as session:
        out = os.open(history, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        n = begun
        while not os.path.exists(over) and n + 1 < FLAGS.capacity:
            n += 1
            os.write(out, f"began {n} {time.time():.4f}\n".encode())
            _, at = session.run([train, step], {number: n})
            os.write(out, f"done {n} {time.time():.4f} {at}\n".encode())
        open(done, "w").close()
        if me == 0:
            await_others(session, workers, train, number, FLAGS.capacity - 1)
            values = session.run({v.op.name: v for v in tf.global_variables()})
            np.savez(os.path.join(FLAGS.folder, "state.tmp.npz"), **values)
            os.rename(
                os.path.join(FLAGS.folder, "state.tmp.npz"), os.path.join(FLAGS.folder, "state.npz")
            )
        while not os.path.exists(os.path.join(FLAGS.folder, "state.npz")):
            if FLAGS.sync:
                session.run(train, {number: FLAGS.capacity - 1})  # The chief waits for rounds.
            time.sleep(0.05)


def last_of(history):
    """The last step that an earlier process of this worker began: it may have been applied."""
    if not os.path.exists(history):
        return 0
    with open(history) as lines:
        return max((int(line.split()[1]) for line in lines if line.strip()), default=0)


def await_others(session, workers, train, number, spare):
    while not all(os.path.exists(os.path.join(FLAGS.folder, f"done-{i}")) for i in range(workers)):
        if FLAGS.sync:
            session.run(train, {number: spare})  # The others wait for rounds.
        else:
            time.sleep(0.05)


if __name__ == "__main__":
    tf.app.run()
