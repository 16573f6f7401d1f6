"""A worker or ps of a cluster whose chief may be elected: written as the seeds' programs are.

``elected_trainer.py --job_name= --task_index= --ps_hosts= --worker_hosts= --folder=``, and
``--sync``, ``--supervisor``, ``--steps``. With ``--stop_in_rename`` the first chief stops himself
(SIGSTOP) at the last moment of his second checkpoint: he has seen that he may write it.
"""

import os
import signal
import time

import millrace as tf
from millrace.platform.atomic_file import AtomicFile

flags = tf.app.flags
flags.DEFINE_string("job_name", "", "ps or worker")
flags.DEFINE_integer("task_index", 0, "the task's number")
flags.DEFINE_string("ps_hosts", "", "addresses")
flags.DEFINE_string("worker_hosts", "", "addresses")
flags.DEFINE_string("folder", "", "of checkpoints")
flags.DEFINE_bool("sync", False, "synchronous replicas")
flags.DEFINE_bool("supervisor", False, "with a Supervisor")
flags.DEFINE_bool("elect", False, "says so in the program")
flags.DEFINE_integer("steps", 1000000, "the last step")
flags.DEFINE_bool("stop_in_rename", False, "stop in a commit")
FLAGS = flags.FLAGS


def stop_in_rename():
    """Lets the process stop itself once, right before it renames its second state file."""
    commit = AtomicFile.commit
    count = 0

    def stopping(self):
        nonlocal count
        count += self.name.endswith("/checkpoint")
        if count == 2 and is_first():
            print("stops itself", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        commit(self)

    AtomicFile.commit = stopping


def is_first():
    try:
        open(FLAGS.folder + ".stopped", "x").close()
    except FileExistsError:
        return False
    return True


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    cluster = tf.train.ClusterSpec(
        {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    )
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    if FLAGS.stop_in_rename:
        stop_in_rename()
    is_chief = "elect" if FLAGS.elect else FLAGS.task_index == 0
    with tf.device(
        tf.train.replica_device_setter(
            worker_device=f"/job:worker/task:{FLAGS.task_index}", cluster=cluster
        )
    ):
        step = tf.train.get_or_create_global_step()
        weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.ones([4, 3]), weights) - 1.0))
        optimizer = tf.train.GradientDescentOptimizer(0.01)
        hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps)]
        if FLAGS.sync:
            count = cluster.num_tasks("worker")
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, count, total_num_replicas=count)
            hooks.append(optimizer.make_session_run_hook(is_chief))
        train = optimizer.minimize(loss, global_step=step)
    if FLAGS.supervisor:
        supervisor = tf.train.Supervisor(
            is_chief=is_chief, logdir=FLAGS.folder, global_step=step, save_model_secs=1
        )
        with supervisor.managed_session(server.target) as session:
            value = 0
            while not supervisor.should_stop() and value < FLAGS.steps:
                _, value = session.run([train, step])
                report(value)
                time.sleep(0.02)
    else:
        with tf.train.MonitoredTrainingSession(
            master=server.target,
            is_chief=is_chief,
            checkpoint_dir=FLAGS.folder,
            save_checkpoint_steps=20,
            save_summaries_steps=None,
            hooks=hooks,
        ) as session:
            while not session.should_stop():
                _, value = session.run([train, step])
                report(value)
                time.sleep(0.01)
    print("done", flush=True)


def report(value):
    print("step", int(value), flush=True)


if __name__ == "__main__":
    tf.app.run()
