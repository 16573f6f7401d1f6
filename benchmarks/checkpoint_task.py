"""One task of the cluster that `checkpoint.py` measures, of Millrace or of TensorFlow.

    checkpoint_task.py LIBRARY CLUSTER_AS_JSON JOB INDEX MEBIBYTES

A ps serves until its standard input is closed. The worker makes variables on the ps tasks, fills
them, and then answers lines of its standard input: ``save FOLDER NUMBER`` and ``restore FOLDER
NUMBER`` with the seconds that it took, as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time

VARIABLES_PER_PS = 4
ROW = 256  # float32: 1 KiB


def main() -> None:
    library, cluster, job, index, mebibytes = sys.argv[1:]
    if library == "millrace":
        tf = importlib.import_module("millrace")
    else:
        tf = importlib.import_module("tensorflow.compat.v1")
        tf.disable_v2_behavior()
    addresses = json.loads(cluster)
    server = tf.train.Server(addresses, job_name=job, task_index=int(index))
    if job == "ps":
        print(json.dumps("serving"), flush=True)
        sys.stdin.read()
        return
    serve_worker(tf, server.target, len(addresses["ps"]), int(mebibytes))


def serve_worker(tf, target: str, ps_tasks: int, mebibytes: int) -> None:
    count = VARIABLES_PER_PS * ps_tasks
    rows = mebibytes * 1024 // count
    variables = []
    for i in range(count):
        with tf.device(f"/job:ps/task:{i % ps_tasks}"):
            initial = tf.random_uniform([rows, ROW], seed=i)
            variables.append(tf.Variable(initial, name=f"v{i:02d}"))
    sums = [tf.reduce_sum(v) for v in variables]
    saver = tf.train.Saver(sharded=True, max_to_keep=1)
    with tf.Session(target) as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(sums)
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            action, folder, number = line.split()
            start = time.perf_counter()
            if action == "save":
                saver.save(
                    sess, os.path.join(folder, "m"), global_step=int(number), write_meta_graph=False
                )
            else:
                saver.restore(sess, os.path.join(folder, f"m-{number}"))
            seconds = time.perf_counter() - start
            if action == "restore":
                assert sess.run(sums) == before, "other values came back"
            print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
