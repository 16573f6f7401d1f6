"""The seeds' sentences about replicated training: in-graph, between-graph, in rounds or not."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

import millrace as tf

RATE = 0.1
EXAMPLES = np.array([[1.0], [2.0], [4.0], [8.0]], np.float32)


def in_threads(*calls: Callable[[], object]) -> None:
    """Runs functions at the same time; raises what one of them raised."""
    failed: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=[call], daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


def loss_of(w: tf.Variable, batch: np.ndarray) -> tf.Tensor:
    return tf.reduce_mean(tf.constant(batch) * w)


def test_in_graph_replication_has_one_client_and_a_replica_on_each_worker(start):
    """000 and 004: one graph, one session; parameters on the ps, a copy of the model per worker.

    Seed 004: it is updated synchronously; seed 000: by averaging the gradients of the copies.
    """
    cluster = start(ps=1, worker=2)
    with tf.device("/job:ps/task:0"):
        w = tf.Variable([1.0])
    optimizer = tf.train.GradientDescentOptimizer(RATE)
    gradients = []
    for task in range(2):
        with tf.device(f"/job:worker/task:{task}"):
            loss = loss_of(w, EXAMPLES[2 * task : 2 * task + 2])
            gradients.append(optimizer.compute_gradients(loss, [w])[0][0])
    mean = tf.add_n(gradients) / len(gradients)
    train = optimizer.apply_gradients([(mean, w)])
    with tf.Session(cluster.target("worker", 0)) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        np.testing.assert_allclose(sess.run(w), [1.0 - RATE * EXAMPLES.mean()], rtol=1e-6)


class Replica:
    """The client of one worker: a graph, a session, and the operation that trains."""

    def __init__(self, cluster, task: int, rounds_of: int = 0) -> None:
        self.graph = tf.Graph()
        self.is_chief = task == 0
        setter = tf.train.replica_device_setter(
            worker_device=f"/job:worker/task:{task}", cluster=cluster.spec
        )
        with self.graph.as_default(), tf.device(setter):
            self.step = tf.train.get_or_create_global_step()
            self.w = tf.Variable([1.0], name="w")
            # A round takes any two gradients, also two of one worker: they must not differ.
            batch = EXAMPLES if rounds_of else EXAMPLES[2 * task : 2 * task + 2]
            loss = loss_of(self.w, batch)
            optimizer = tf.train.GradientDescentOptimizer(RATE)
            if rounds_of:
                optimizer = tf.train.SyncReplicasOptimizer(
                    optimizer, replicas_to_aggregate=rounds_of, total_num_replicas=rounds_of
                )
            self.train = optimizer.minimize(loss, global_step=self.step)
            self.hooks = [optimizer.make_session_run_hook(self.is_chief)] if rounds_of else []
        self.target = cluster.target("worker", task)

    def session(self, last_step: int):
        stop = tf.train.StopAtStepHook(last_step=last_step)
        return tf.train.MonitoredTrainingSession(
            master=self.target, is_chief=self.is_chief, hooks=[*self.hooks, stop]
        )

    def train_to(self, last_step: int) -> None:
        with self.graph.as_default(), self.session(last_step) as sess:
            while not sess.should_stop():
                sess.run(self.train)


def values_on_ps(replica: Replica) -> tuple[float, int]:
    with tf.Session(replica.target, graph=replica.graph) as sess:
        w, step = sess.run([replica.w, replica.step])
    return float(w[0]), int(step)


def test_between_graph_replication_has_a_client_for_each_worker(start):
    """000 and 004: every worker has a client, a graph and a session of its own."""
    cluster = start(ps=1, worker=2)
    replicas = [Replica(cluster, task) for task in range(2)]
    assert replicas[0].graph is not replicas[1].graph
    in_threads(*(lambda r=r: r.train_to(10) for r in replicas))
    assert cluster.variables_on("ps") == 2  # one w and one global step for both
    assert cluster.variables_on("worker", 0) == cluster.variables_on("worker", 1) == 0


def test_asynchronous_replicas_do_not_wait_for_each_other(start):
    """000 and 001: each replica has a loop of its own and updates the ps without the others."""
    cluster = start(ps=1, worker=2)
    chief, other = (Replica(cluster, task) for task in range(2))
    with chief.graph.as_default(), chief.session(1000) as first:
        first.run(chief.train)
        with other.graph.as_default(), other.session(1000) as second:
            for _ in range(5):
                second.run(other.train)  # the chief does nothing meanwhile
            w, step = second.run([other.w, other.step])
    means = EXAMPLES[:2].mean(), EXAMPLES[2:].mean()
    np.testing.assert_allclose(w, [1.0 - RATE * (means[0] + 5 * means[1])], rtol=1e-5)
    assert step == 6


def test_asynchronously_the_global_step_counts_the_steps_of_all_workers(start):
    """001: when asynchronous, the global step is the sum of all workers' steps."""
    cluster = start(ps=1, worker=2)
    chief, other = (Replica(cluster, task) for task in range(2))
    with chief.graph.as_default(), chief.session(1000) as first:
        with other.graph.as_default(), other.session(1000) as second:
            for _ in range(3):
                first.run(chief.train)
            for _ in range(4):
                second.run(other.train)
        assert first.run(chief.step) == 7


def test_synchronously_the_gradients_of_all_replicas_are_applied_together(start):
    """000 and 001: replicas read the same parameters, and their gradients make one update.

    Seed 001: the global step then counts the rounds.
    """
    cluster = start(ps=1, worker=2)
    replicas = [Replica(cluster, task, rounds_of=2) for task in range(2)]
    in_threads(*(lambda r=r: r.train_to(5) for r in replicas))
    w, rounds = values_on_ps(replicas[0])
    assert rounds >= 5
    np.testing.assert_allclose(w, 1.0 - rounds * RATE * EXAMPLES.mean(), rtol=1e-5)


def test_a_synchronous_round_is_as_quick_as_its_slowest_worker(start):
    """001: the speed of synchronous training is that of the slowest machine."""
    cluster = start(ps=1, worker=2)
    chief, other = (Replica(cluster, task, rounds_of=2) for task in range(2))
    done = threading.Event()

    def train_once() -> None:
        with chief.graph.as_default(), chief.session(1) as sess:
            sess.run(chief.train)
        done.set()

    def train_late() -> None:
        with other.graph.as_default(), other.session(1) as sess:
            # One of the round's two gradients is missing, so the round cannot have ended.
            assert not done.is_set()
            assert sess.run(other.step) == 0
            sess.run(other.train)

    in_threads(train_once, train_late)
    assert done.is_set()
    assert values_on_ps(chief)[1] == 1


def test_without_a_number_of_replicas_to_aggregate_all_workers_make_a_round():
    """001: a round has as many gradients as there are workers, if nothing else is said."""
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(RATE), replicas_to_aggregate=3
    )
    step = tf.train.get_or_create_global_step()
    w = tf.Variable([1.0])
    optimizer.minimize(tf.reduce_sum(w), global_step=step)
    tokens = optimizer.get_init_tokens_op()
    assert tokens.graph is tf.get_default_graph()
    assert optimizer._total_num_replicas == optimizer._replicas_to_aggregate == 3
    assert isinstance(optimizer.get_chief_queue_runner(), tf.train.QueueRunner)
