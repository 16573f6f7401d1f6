"""What a round of synchronous training costs, counted; and that it is the round it should be."""

import concurrent.futures

import numpy as np
import pytest

import millrace as tf
from millrace.ops.data_flow import shared_state
from millrace.rpc import turns

PS = "/job:ps/replica:0/task:0"
ROUNDS = 10
TIMEOUT = tf.RunOptions(timeout_in_ms=60_000)


class Replica:
    """A worker whose rounds are closed one by one, so that counts are exact."""

    def __init__(self, cluster, optimizer=None):
        setter = tf.train.replica_device_setter(
            cluster=cluster.spec, worker_device="/job:worker/task:0"
        )
        with tf.device(setter):
            self.step = tf.train.get_or_create_global_step()
            self.x = tf.placeholder(tf.float32, [None, 6])
            self.y = tf.placeholder(tf.float32, [None, 2])
            hidden = tf.nn.relu(tf.nn.xw_plus_b(self.x, self.weights([6, 5], "a"), self.bias(5)))
            out = tf.nn.xw_plus_b(hidden, self.weights([5, 2], "b"), self.bias(2))
            self.loss = tf.reduce_mean(tf.square(out - self.y))
            inner = optimizer or tf.train.AdamOptimizer(0.01)
            self.optimizer = tf.train.SyncReplicasOptimizer(inner, 1, 1)
            self.train = self.optimizer.minimize(self.loss, self.step)
            self.close_round = self.optimizer._sync_op
        self.feed = {self.x: np.arange(24.0).reshape(4, 6) / 10, self.y: np.ones([4, 2])}

    def weights(self, shape, name):
        first = np.linspace(-1, 1, shape[0] * shape[1]).reshape(shape).astype(np.float32)
        return tf.get_variable(name, initializer=first)

    def bias(self, size):
        return tf.Variable(tf.zeros([size]))

    def begin(self, session):
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(self.optimizer.chief_init_op)

    def round(self, session, options=TIMEOUT):
        with concurrent.futures.ThreadPoolExecutor(1) as chief:
            closed = chief.submit(session.run, self.close_round, options=options)
            _, loss = session.run([self.train, self.loss], self.feed, options=options)
            closed.result()
        return float(loss)


def test_a_round_is_three_messages_each_way_and_two_xla_calls(any_cluster):
    """The step: ask for parameters; gradients, then token and end. The round: run, then end.

    Parameters that are shown on this machine are not asked for.
    """
    replica = Replica(any_cluster)
    worker, ps = any_cluster["worker", 0], any_cluster["ps", 0]
    with tf.Session(worker.target) as session:
        replica.begin(session)
        for _ in range(2):
            replica.round(session)
        traffic = worker.peers.traffic()[PS]
        sent, received = traffic.messages_sent, traffic.messages_received
        calls = ps.worker.xla_calls, worker.worker.xla_calls
        for _ in range(ROUNDS):
            replica.round(session)
        traffic = worker.peers.traffic()[PS]
        each_way = 2 if ps.worker.snapshots.published else 3
        assert traffic.messages_sent - sent == each_way * ROUNDS
        assert traffic.messages_received - received == each_way * ROUNDS
        assert ps.worker.xla_calls - calls[0] == ROUNDS  # all updates
        assert worker.worker.xla_calls - calls[1] == ROUNDS  # all gradients
        assert session.run(replica.step) == ROUNDS + 2


def test_only_who_waits_in_a_round_may_spin_for_its_end(cluster, monkeypatch):
    """A worker of asynchronous training would take the core of the one whose turn it is."""
    replica = Replica(cluster)
    with tf.Session(cluster.target("worker")) as session:
        replica.begin(session)
        replica.round(session, options=None)
        waits: list[bool] = []
        made = turns.listener

        def listener(channels, in_round=False):
            waits.append(in_round)
            return made(channels, in_round)

        monkeypatch.setattr(turns, "listener", listener)
        replica.round(session, options=None)
        assert waits == [True, True]  # the worker's step, and the chief's
        session.run([replica.loss, replica.step], replica.feed)
        assert waits == [True, True, False]


def test_a_round_is_closed_by_the_thread_that_brings_its_last_gradient(any_cluster, monkeypatch):
    replica = Replica(any_cluster)
    ps = any_cluster["ps", 0].worker
    handed_over = []
    submit = ps._threads.submit

    def note(function, *args):
        if function.__qualname__.startswith(("Execution.", "Worker.")):
            handed_over.append(function)
        return submit(function, *args)

    with tf.Session(any_cluster.target("worker")) as session:
        replica.begin(session)
        for _ in range(2):
            replica.round(session)
        with monkeypatch.context() as patch:
            patch.setattr(ps._threads, "submit", note)
            for _ in range(ROUNDS):
                replica.round(session)
    assert not handed_over


@pytest.mark.parametrize("way", ["socket", "grpc"])
def test_no_gradient_is_copied_on_its_way_into_an_accumulator(make_cluster, way, monkeypatch):
    cluster = make_cluster({"ps": 1, "worker": 1}, way)
    replica = Replica(cluster)
    copied = []
    with tf.Session(cluster.target("worker")) as session:
        replica.begin(session)
        for _ in range(2):
            replica.round(session)
        with monkeypatch.context() as patch:
            patch.setattr(shared_state, "kept", lambda array: copied.append(array) or array)
            for _ in range(ROUNDS):
                replica.round(session)
    assert not copied


def test_what_a_ps_runs_in_a_round_does_not_grow_with_the_variables(cluster):
    replica = Replica(cluster)
    with tf.Session(cluster.target("worker")) as session:
        replica.begin(session)
        replica.round(session)
        plans = [graph.plan for graph in cluster["ps", 0].worker.sessions.graphs.values()]
        stages = sorted(
            [type(s).__name__ for s in plan.stages]
            for plan in plans
            if any(type(s).__name__.endswith("GradientsStage") for s in plan.stages)
        )
        assert stages == [
            ["ReceiveStage", "ApplyGradientsStage", "DequeueStage", "SendStage"],
            ["TakeGradientsStage", "CompiledStage", "EnqueueManyStage"],
        ]


def test_one_worker_in_step_learns_as_one_that_is_alone(any_cluster):
    replica = Replica(any_cluster)
    with tf.device("/job:ps/task:0"):
        plain = tf.train.AdamOptimizer(0.01, name="plain").minimize(replica.loss)
    with tf.Session(any_cluster.target("worker")) as session:
        replica.begin(session)
        in_step = [replica.round(session) for _ in range(5)]
        session.run(tf.global_variables_initializer())
        alone = [session.run([plain, replica.loss], replica.feed)[1] for _ in range(5)]
    np.testing.assert_allclose(in_step, alone, rtol=1e-5)


def test_a_round_leaves_nothing_to_the_garbage_collector(any_cluster, left_by):
    """A gradient that stays in memory keeps its sender's from being used again."""
    replica = Replica(any_cluster)
    with tf.Session(any_cluster.target("worker")) as session:
        replica.begin(session)
        for _ in range(3):
            replica.round(session)
        left = left_by(lambda: replica.round(session), 20)
        assert left.total() < 20, left  # not one object a round
