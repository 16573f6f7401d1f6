"""A task of a cluster that learns MNIST, for tests that break it: `mnist_trainer.py job task ...`.

Workers train until the file `last_step` in `--folder` says at which step to end. They say what
happens, a line each: ``up``, ``session``, ``step N``; and the chief at last what was learned, as
JSON.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import millrace as tf
from millrace.examples.tutorials.mnist import input_data

BATCH = 100
SAVE_STEPS = 100
#: After each step. The faults take their time, and other tests need the cores.
PAUSE_SECONDS = 0.02
#: A worker that trains says so at least as often, or with every step that takes longer: whoever
#: measures when it trains again must not have to wait for a step with a round number.
WORD_SECONDS = 0.1

parser = argparse.ArgumentParser()
parser.add_argument("job")
parser.add_argument("task", type=int)
parser.add_argument("--ps", required=True)
parser.add_argument("--workers", required=True)
parser.add_argument("--folder", type=Path, required=True)
parser.add_argument("--sync", action="store_true")
options = parser.parse_args()


def say(*words: object) -> None:
    # In one piece: what is logged by other threads goes to the same pipe.
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def dense(name, x, units):
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [x.shape[1], units])
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.matmul(x, kernel) + bias


class StopWhenTold(tf.train.SessionRunHook):
    """Ends at the step that the file says; says which step it is."""

    def __init__(self, step):
        self._step = step
        self._last = None

    def after_create_session(self, session, coord):
        self._said_at = -WORD_SECONDS
        say("session")

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        now = time.monotonic()
        if now >= self._said_at + WORD_SECONDS:
            self._said_at = now
            say("step", run_values.results)
        if self._last is None:
            told = options.folder / "last_step"
            self._last = int(told.read_text()) if told.exists() else None
        if self._last is not None and run_values.results >= self._last:
            run_context.request_stop()


tf.logging.set_verbosity(tf.logging.INFO)
cluster = tf.train.ClusterSpec({"ps": options.ps.split(","), "worker": options.workers.split(",")})
server = tf.train.Server(cluster, job_name=options.job, task_index=options.task)
say("up")
if options.job == "ps":
    server.join()
    raise SystemExit

is_chief = options.task == 0
setter = tf.train.replica_device_setter(
    worker_device=f"/job:worker/task:{options.task}", cluster=cluster
)
with tf.device(setter):
    step = tf.train.get_or_create_global_step()
    images = tf.placeholder(tf.float32, [None, 784])
    labels = tf.placeholder(tf.int64, [None])
    hidden = tf.nn.relu(dense("hidden", images, 100))
    logits = dense("logits", hidden, 10)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
    optimizer = tf.train.AdamOptimizer(0.003)
    hooks = [StopWhenTold(step)]
    if options.sync:
        count = cluster.num_tasks("worker")
        optimizer = tf.train.SyncReplicasOptimizer(optimizer, count, total_num_replicas=count)
        hooks.append(optimizer.make_session_run_hook(is_chief))
    train = optimizer.minimize(loss, global_step=step)
    saver = tf.train.Saver(sharded=True)

data = input_data.read_data_sets(str(options.folder))
config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{options.task}"])
with tf.train.MonitoredTrainingSession(
    server.target,
    is_chief,
    str(options.folder / "model"),
    scaffold=tf.train.Scaffold(saver=saver),
    hooks=hooks,
    save_checkpoint_secs=None,
    save_checkpoint_steps=SAVE_STEPS,
    save_summaries_steps=None,
    save_summaries_secs=None,
    config=config,
) as session:
    while not session.should_stop():
        x, y = data.train.next_batch(BATCH)
        session.run(train, {images: x, labels: y})
        time.sleep(PAUSE_SECONDS)

if is_chief:
    with tf.Session(server.target, config=config) as session:
        saver.restore(session, tf.train.latest_checkpoint(str(options.folder / "model")))
        found = session.run([step, accuracy], {images: data.test.images, labels: data.test.labels})
    say(json.dumps({"step": int(found[0]), "accuracy": float(found[1])}))
