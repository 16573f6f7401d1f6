"""One task that trains a model of `model_zoo`, and says what its steps cost.

    python model_task.py millrace|tensorflow MODEL [JOB INDEX HOSTS]

Prints, as JSON after an @, the CPU time and the losses of the first steps. Then it reads lines from
its input, each the number of steps to make next, and answers with the CPU time of the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

# TensorFlow keeps the cells of `tf.nn.rnn_cell` in this package.
os.environ["TF_USE_LEGACY_KERAS"] = "1"

from local_workloads import load
from model_zoo import MODELS
from model_zoo.model import first_value

#: Of so many steps the losses are compared.
COMPARED_STEPS = 10
#: Larger variables begin with what the model says.
_LARGEST = 4_000_000


def say(values: dict) -> None:
    """One line for `models.py`."""
    print("@" + json.dumps(values), flush=True)


def initialize(tf: Any, session: Any) -> None:
    """Initialises all variables, trainable ones with the same values in every library."""
    session.run(tf.global_variables_initializer())
    given = {
        variable.initializer: first_value(variable.shape.as_list(), seed)
        for seed, variable in enumerate(tf.trainable_variables())
        if variable.shape.num_elements() <= _LARGEST
    }
    session.run(list(given), {op.inputs[1]: value for op, value in given.items()})


def train(tf: Any, name: str, target: str, worker: str, setter: Any) -> None:
    """Makes steps and reports on them until its input ends."""
    with tf.device(setter):
        model = MODELS[name][1](tf, worker)
    with tf.Session(target) as session:
        initialize(tf, session)
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)

        making = 0.0  # What it cost to make batches: that is neither library's work.

        def batches(count: int) -> list[dict]:
            nonlocal making
            start = time.thread_time()
            made = [next(model.feeds) for _ in range(count)]
            making += time.thread_time() - start
            return made

        def once(feed: dict) -> float:
            if model.before is not None:
                session.run(model.before)
            _, loss = session.run([model.step, model.loss], feed)
            return float(loss)

        feeds = batches(COMPARED_STEPS)
        before = time.process_time()
        losses = [once(feeds[0])]
        first = time.process_time() - before
        losses += [once(feed) for feed in feeds[1:]]
        say({"first_step": first, "losses": losses, "cpu": time.process_time() - making})
        for line in sys.stdin:
            for feed in batches(int(line)):
                once(feed)
            say({"cpu": time.process_time() - making})
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=5)


def main(library: str, name: str, job: str = "", index: str = "0", hosts: str = "") -> None:
    """One process: the only one, or a task of a cluster."""
    tf = load(library)
    if not job:
        train(tf, name, "", "", None)
        return
    cluster = tf.train.ClusterSpec(json.loads(hosts))
    server = tf.train.Server(cluster, job_name=job, task_index=int(index))
    if job == "ps":
        server.join()
    worker = f"/job:worker/task:{index}"
    setter = tf.train.replica_device_setter(worker_device=worker, cluster=cluster)
    train(tf, name, server.target, worker, setter)


if __name__ == "__main__":
    main(*sys.argv[1:])
