"""A task of a cluster that learns a linear function: `linear_trainer.py job task ps worker ...`.

Options: `--sync` (with `--aggregate`, `--backup`), `--steps`, `--batches` (how many batches the
worker has before its data end), `--folder`. A worker prints one line of JSON when it is done.
"""

import argparse
import json

import numpy as np

import millrace as tf

parser = argparse.ArgumentParser()
parser.add_argument("job")
parser.add_argument("task", type=int)
parser.add_argument("--ps", required=True)
parser.add_argument("--workers", required=True)
parser.add_argument("--sync", action="store_true")
parser.add_argument("--aggregate", type=int)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--batches", type=int)
parser.add_argument("--folder", help="where checkpoints go; by default there are none")
options = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": options.ps.split(","), "worker": options.workers.split(",")})
server = tf.train.Server(cluster, job_name=options.job, task_index=options.task)
if options.job == "ps":
    server.join()
    raise SystemExit

count = cluster.num_tasks("worker")
is_chief = options.task == 0
setter = tf.train.replica_device_setter(
    worker_device=f"/job:worker/task:{options.task}", cluster=cluster
)
with tf.device(setter):
    step = tf.train.get_or_create_global_step()
    kernel = tf.get_variable("kernel", [4, 1], initializer=tf.zeros_initializer())
    bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
    table = tf.get_variable(
        "table",
        [6, 1],
        initializer=tf.zeros_initializer(),
        partitioner=tf.fixed_size_partitioner(cluster.num_tasks("ps")),
    )
    x = tf.placeholder(tf.float32, [12, 4])
    y = tf.placeholder(tf.float32, [12, 1])
    rows = tf.nn.embedding_lookup(table, [0, 1, 2, 3, 4, 5] * 2)
    loss = tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias + rows - y))
    optimizer = tf.train.AdagradOptimizer(0.5)
    hooks = [tf.train.StopAtStepHook(last_step=options.steps)]
    if options.sync:
        optimizer = tf.train.SyncReplicasOptimizer(
            optimizer, options.aggregate or count, total_num_replicas=count
        )
        hooks.append(optimizer.make_session_run_hook(is_chief))
    train = optimizer.minimize(loss, global_step=step)

random = np.random.RandomState(options.task)
truth = np.array([[1.0], [-2.0], [0.5], [3.0]])
taken, value, seen = 0, None, None
# Without it, a worker that is late would wait for one that has ended.
config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{options.task}"])
with tf.train.MonitoredTrainingSession(
    master=server.target,
    is_chief=is_chief,
    checkpoint_dir=options.folder,
    hooks=hooks,
    config=config,
) as session:
    while not session.should_stop():
        if taken == options.batches:
            break
        batch = random.randn(12, 4)
        target = batch @ truth + 0.3 * np.tile(np.arange(6.0), 2)[:, None]
        _, value, seen = session.run([train, loss, step], {x: batch, y: target})
        taken += 1
print(json.dumps({"task": options.task, "batches": taken, "loss": float(value), "step": int(seen)}))
