"""Workloads of the cluster benchmark: one TF1 program, run unchanged on TensorFlow and Millrace.

Run by `live_cluster.py`, a process a task:

    python cluster_workloads.py LIBRARY WORKLOAD JOB INDEX CLUSTER

A ps joins. A worker builds its replica and trains until somebody ends it. It prints a line of JSON
when the cluster is warm, one with the loss when it is past the step at which losses are compared,
and from then on one for each line on its input: the last global step that it saw, and when.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from local_workloads import cnn_loss, digits, load, weights

#: Steps before the measurement: compilation, connections, first allocations.
WARM_STEPS = 10
#: How many batches a workload has; they come again and again.
BATCHES = 50


def mlp(tf: Any, hidden: int, batch: int = 100) -> tuple[Any, Iterator[dict]]:
    """The seed programs' MLP, 784-hidden-10: its loss, and its feeds for ever."""
    x = tf.placeholder(tf.float32, [None, 784])
    y_ = tf.placeholder(tf.float32, [None, 10])
    inner = tf.nn.relu(
        tf.nn.xw_plus_b(
            x,
            tf.Variable(weights([784, hidden], 1), name="hid_w"),
            tf.Variable(tf.zeros([hidden]), name="hid_b"),
        )
    )
    logits = tf.nn.xw_plus_b(
        inner,
        tf.Variable(weights([hidden, 10], 2), name="sm_w"),
        tf.Variable(tf.zeros([10]), name="sm_b"),
    )
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=logits))
    images, labels = digits(5000)

    def feeds() -> Iterator[dict]:
        while True:
            for i in range(0, len(images), batch):
                yield {x: images[i : i + batch], y_: labels[i : i + batch]}

    return loss, feeds()


def cnn(tf: Any) -> tuple[Any, Iterator[dict]]:
    """The LeNet-size CNN of the local benchmark."""
    x, y_, loss = cnn_loss(tf)
    images, labels = digits(5000)

    def feeds() -> Iterator[dict]:
        while True:
            for i in range(0, len(images), 100):
                yield {x: images[i : i + 100], y_: labels[i : i + 100]}

    return loss, feeds()


def embedding(tf: Any, rows: int = 1_000_000, width: int = 64) -> tuple[Any, Iterator[dict]]:
    """Bags of 20 ids, batch 512, from a table in two parts; half of the ids are frequent."""
    ids = tf.placeholder(tf.int64, [512, 20])
    y_ = tf.placeholder(tf.float32, [512, 1])
    table = tf.get_variable(
        "table",
        [rows, width],
        initializer=tf.random_uniform_initializer(-0.05, 0.05, seed=1),
        partitioner=tf.fixed_size_partitioner(2),
    )
    bag = tf.reduce_mean(tf.nn.embedding_lookup(table, ids, partition_strategy="div"), 1)
    logits = tf.matmul(bag, tf.Variable(weights([width, 1], 3), name="out_w"))
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y_, logits=logits))
    batches = bags(rows)

    def feeds() -> Iterator[dict]:
        while True:
            for chosen, labels in batches:
                yield {ids: chosen, y_: labels}

    return loss, feeds()


def bags(rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches of 512 bags of 20 ids, with labels that the frequent half of the ids decides."""
    random = np.random.RandomState(0)
    score = random.randn(1000).astype(np.float32)
    batches = []
    for _ in range(BATCHES):
        frequent = random.randint(0, 1000, [512, 10])
        others = random.randint(0, rows, [512, 10])
        labels = (score[frequent].sum(1, keepdims=True) > 0).astype(np.float32)
        batches.append((np.concatenate([frequent * (rows // 1000), others], 1), labels))
    return batches


@dataclasses.dataclass(frozen=True)
class Workload:
    """What runs on how many tasks, and what is expected of it.

    Attributes:
      compare_at: The global step around which the losses of both libraries are compared. With
        asynchronous workers it is one by which it does not tell any more how far one of them
        was ahead when the others began.
      least: The ratio to TensorFlow's steps per second that must be reached.
      aim: The ratio that is aimed at, near the limit of two cores.
      least_to_pytorch: The same as `least`, to PyTorch's; None where it has no such training.
    """

    title: str
    ps: int
    workers: int
    model: Callable[[Any], tuple[Any, Iterator[dict]]]
    optimizer: Callable[[Any], Any]
    compare_at: int
    least: float
    aim: float
    synchronous: bool = False
    least_to_pytorch: float | None = None


def adam(tf: Any) -> Any:
    return tf.train.AdamOptimizer(0.001)


def small_mlp(tf: Any) -> tuple[Any, Iterator[dict]]:
    return mlp(tf, 100)


def adagrad(tf: Any) -> Any:
    return tf.train.AdagradOptimizer(0.5)


def descent(tf: Any) -> Any:
    return tf.train.GradientDescentOptimizer(0.05)


WORKLOADS = {
    "mlp_async_1_1": Workload(
        "MLP, asynchronous, 1 ps + 1 worker", 1, 1, small_mlp, adam, 60, 4.0, 5.0
    ),
    "mlp_async_1_2": Workload("MLP, asynchronous, 1 + 2", 1, 2, small_mlp, adam, 200, 4.0, 5.0),
    "mlp_sync_1_2": Workload(
        "MLP, synchronous, 1 + 2", 1, 2, small_mlp, adam, 60, 4.0, 5.0, True, 2.0
    ),
    "mlp_4096_2_2": Workload(
        "MLP, hidden 4096, 2 + 2", 2, 2, lambda tf: mlp(tf, 4096), adam, 100, 2.0, 2.5
    ),
    "mlp_10000_1_1": Workload(
        "MLP, hidden 10,000, 1 + 1", 1, 1, lambda tf: mlp(tf, 10000), adam, 20, 1.5, 2.0
    ),
    "embedding_2_2": Workload("embedding 1M x 64, 2 + 2", 2, 2, embedding, adagrad, 60, 3.0, 4.0),
    "cnn_1_2": Workload("LeNet-size CNN, 1 + 2", 1, 2, cnn, descent, 30, 1.0, 1.2),
}


def open_replica(
    tf: Any, server: Any, cluster: Any, index: int, workload: Workload
) -> tuple[Callable[..., tuple[int, float]], Any]:
    """One worker's replica: what makes a step and tells the global step and the loss; its session.

    What is built goes into the default graph. What makes a step takes what `run` of a session
    takes beside fetches and feeds.
    """
    chief = index == 0
    setter = tf.train.replica_device_setter(
        worker_device=f"/job:worker/task:{index}", cluster=cluster
    )
    with tf.device(setter):
        global_step = tf.train.get_or_create_global_step()
        loss, feeds = workload.model(tf)
        optimizer = workload.optimizer(tf)
        hooks = []
        if workload.synchronous:
            optimizer = tf.train.SyncReplicasOptimizer(
                optimizer, workload.workers, workload.workers
            )
            hooks.append(optimizer.make_session_run_hook(chief))
        step = optimizer.minimize(loss, global_step=global_step)
    if not chief:
        # Else TensorFlow looks only every 30 seconds whether the chief has initialised.
        missing = tf.report_uninitialized_variables(tf.global_variables())
        with tf.Session(server.target) as look:
            while look.run(missing).size:
                time.sleep(0.05)
    session = tf.train.MonitoredTrainingSession(
        master=server.target, is_chief=chief, hooks=hooks, save_checkpoint_secs=None,
        save_checkpoint_steps=None, save_summaries_steps=None, save_summaries_secs=None,
        log_step_count_steps=None,
    )  # fmt: skip

    for _ in range(BATCHES * index // workload.workers):
        next(feeds)  # Two workers that begin at once are not at the same batch.

    def once(**how: Any) -> tuple[int, float]:
        _, value, number = session.run([step, loss, global_step], next(feeds), **how)
        return int(number), float(value)

    return once, session


def train(run: Callable[[], tuple[int, float]], compare_at: int) -> None:
    """Makes steps and reports on them; never returns.

    Args:
      run: Makes one step and tells the global step and the loss.
      compare_at: The global step around which the loss is reported.
    """
    number, _ = run()
    first = time.time()
    progress = {"step": number, "at": time.perf_counter()}

    def once() -> float:
        number, loss = run()
        progress.update(step=number, at=time.perf_counter())
        return loss

    for _ in range(WARM_STEPS):
        once()
    say({"first_step": first})
    # Not the first: its loss is that of the variables before it was compiled, and others have
    # gone on by then.
    near = []
    while progress["step"] <= 1.3 * compare_at:
        loss = once()
        if 0.7 * compare_at <= progress["step"]:
            near.append(loss)
    say({"loss": float(np.mean(near)) if near else None})

    def answer() -> None:
        for _ in sys.stdin:
            say(progress)

    threading.Thread(target=answer, daemon=True).start()
    while True:
        once()


def say(values: dict) -> None:
    """One line for `live_cluster.py`."""
    print("@" + json.dumps(values), flush=True)


def main(library: str, name: str, job: str, index: int, hosts: dict) -> None:
    """One task of the cluster."""
    tf = load(library)
    cluster = tf.train.ClusterSpec(hosts)
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    run, session = open_replica(tf, server, cluster, index, WORKLOADS[name])
    if index and not WORKLOADS[name].synchronous:
        # The first update is the chief's alone, in every library: two that are computed from the
        # same variables throw a wide model far off, and the losses tell of that for a while.
        while session.run(tf.train.get_global_step()) < 1:
            time.sleep(0.05)
    train(run, WORKLOADS[name].compare_at)


if __name__ == "__main__":
    _, library, name, job, index, hosts = sys.argv
    main(library, name, job, int(index), json.loads(hosts))
