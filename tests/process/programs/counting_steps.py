"""A task of a counting model: ``counting_steps.py job index cluster.json folder steps``.

Each step adds one to every variable on every ps and to the global step. A worker says
``step N`` now and then, and ``end N``.
"""

import json
import sys
from pathlib import Path

import millrace as tf

VARIABLES_PER_PS = 3
SIZE = 1000


def main() -> None:
    job, index, spec, folder, steps = sys.argv[1:]
    cluster = json.loads(Path(spec).read_text())
    server = tf.train.Server(cluster, job, int(index))
    if job == "ps":
        print("up", flush=True)
        server.join()
        return
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
    variables = []
    zeros = tf.zeros_initializer()
    for i in range(VARIABLES_PER_PS * len(cluster["ps"])):
        with tf.device(f"/job:ps/task:{i % len(cluster['ps'])}"):
            variables.append(tf.get_variable(f"v{i}", [SIZE], initializer=zeros))
    with tf.device(f"/job:worker/task:{index}"):
        loss = -tf.add_n([tf.reduce_sum(v) for v in variables])
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
    with tf.train.MonitoredTrainingSession(
        server.target,
        is_chief=index == "0",
        checkpoint_dir=folder if index == "0" else None,
        scaffold=tf.train.Scaffold(saver=tf.train.Saver(sharded=True, max_to_keep=0)),
        hooks=[tf.train.StopAtStepHook(last_step=int(steps))],
        save_checkpoint_steps=40,
        save_checkpoint_secs=None,
        save_summaries_steps=None,
        log_step_count_steps=None,
    ) as session:
        done = told = 0
        while not session.should_stop():
            done = session.run([step, train])[0]
            if done // 20 != told:  # A worker sees one of several steps.
                told = done // 20
                print(f"step {done}", flush=True)
    print(f"end {done}", flush=True)


main()
