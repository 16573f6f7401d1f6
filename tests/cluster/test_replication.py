"""A task whose changes are forwarded, and one that applies them: the same bits and record."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.protocol.replication.view import Member, View
from millrace.protocol.step.applied_steps import StepAttempt
from millrace.rpc.message import Message
from millrace.rpc.service import CachedThreads
from millrace.runtime import store_snapshot
from millrace.server.drivers import current_attempt
from millrace.server.registers import Registers
from millrace.server.replication.applying import Applier
from millrace.server.replication.changes import What
from millrace.server.replication.forwarding import ForwardingJournal
from millrace.server.replication.resource_changes import digests
from millrace.server.worker import Worker

PRIMARY, STANDBY = Member("a:1", 1), Member("b:2", 2)


class Keeper:
    """The register of a view."""

    def __init__(self) -> None:
        self.view = View(1, PRIMARY)

    def read(self) -> View:
        return self.view

    def propose(self, view: View) -> View:
        if view.number == self.view.number + 1:
            self.view = view
        return self.view

    def close(self) -> None:
        """Nothing is open."""


class Pair:
    """A primary, which a server has, and a standby of which only the state is there."""

    is_open = True

    def __init__(self, primary: Worker) -> None:
        self.primary = primary
        self.standby = Worker("/job:ps/replica:0/task:0", lambda *_: None, CachedThreads("test"))
        self.applier = Applier(self.standby, Registers(2))
        self.keeper = Keeper()
        self.told: list[What] = []
        self.acknowledges = True
        self.fenced: list[View] = []
        self._pieces = 0
        self.joined = threading.Event()
        views: Any = self.keeper
        self.journal = ForwardingJournal(
            primary, Registers(1), PRIMARY, self.keeper.view, views, 77, self.fenced.append
        )
        self.journal.start()

    def connect(self) -> None:
        """The standby arrives, and is in step before anything else happens."""
        channel: Any = self
        self.journal.arrived(STANDBY, channel)
        for _ in range(500):
            if self.journal.status()["phase"] == "paired":
                return
            threading.Event().wait(0.01)
        raise AssertionError(self.journal.status())

    def send(self, message: Message) -> None:
        """What a channel does: it brings the message to the standby, which answers."""
        what = What(message.key)
        self.told.append(what)
        self.applier.apply(message)
        if what is What.END or message.step:
            if self.acknowledges:
                self.journal.acknowledged(STANDBY, message.step, 0)
        elif what is not What.BEGIN:
            self._pieces += 1
            self.journal.acknowledged(STANDBY, 0, self._pieces)

    def close(self, reason: str = "") -> None:
        """Only who is replaced lets its standby go."""
        if not reason.startswith("Another process serves"):
            raise AssertionError(reason)

    def check_equal(self, record: bool = True) -> None:
        """Both have the same bits, and the same record."""
        mine, theirs = (
            dict(store_snapshot.take(w.resources)) for w in (self.primary, self.standby)
        )
        assert mine.keys() == theirs.keys() and mine
        for name, value in mine.items():
            np.testing.assert_array_equal(value, theirs[name], err_msg=str(name))
        if record:
            assert [c[:2] for c in self.primary.record.as_state()] == [
                c[:2] for c in self.standby.record.as_state()
            ]


def model() -> tuple[Any, Any]:
    """Dense and sparse updates, slots, a random variable and a counter, all on the ps."""
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
        table = tf.get_variable("table", [50, 4], initializer=tf.random_normal_initializer(seed=1))
        w = tf.get_variable("w", [4, 3], initializer=tf.random_normal_initializer())
        noise = tf.get_variable("noise", [3], initializer=tf.zeros_initializer())
        drawn = tf.assign(noise, tf.random_uniform([3]))
    ids = tf.placeholder(tf.int32, [None], "ids")
    with tf.device("/job:worker/task:0"):
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.embedding_lookup(table, ids), w)))
    train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
    return tf.group(train, drawn), ids


@pytest.fixture(params=["background", "now", "never"])
def compile_mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("MILLRACE_COMPILE", request.param)
    yield request.param


def test_a_standby_has_the_same_bits_whatever_tier_they_were_made_on(
    make_cluster: Any, compile_mode: str
) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    train, ids = model()
    pair = Pair(cluster["ps", 0].worker)
    random = np.random.RandomState(0)
    with tf.train.MonitoredTrainingSession(cluster.target("worker"), is_chief=True) as session:
        for _ in range(3):
            session.run(train, {ids: random.randint(0, 50, 7)})
        pair.connect()  # in the middle of a training
        pair.check_equal()
        for length in (7, 7, 5, 7, 9, 7, 7, 7, 5, 7):
            session.run(train, {ids: random.randint(0, 50, length)})
        pair.check_equal()
    assert pair.told.count(What.BEGIN) == 1 and pair.told.count(What.STAGE) >= 10
    assert not pair.fenced


def test_an_initializer_and_a_new_value_reach_the_standby(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    pair = Pair(cluster["ps", 0].worker)
    pair.connect()
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", [3], initializer=tf.random_uniform_initializer())
        words = tf.get_variable("words", initializer=tf.constant([b"a", b"b"]))
    fed = tf.placeholder(tf.float32, [3])
    given = tf.py_func(lambda: np.full(3, 5, np.float32), [], tf.float32)
    with tf.Session(cluster.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        pair.check_equal()
        session.run(tf.assign(v, fed), {fed: [1, 2, 3]})
        session.run([tf.assign_add(v, fed), tf.assign(words, [b"c", b"d"])], {fed: [1, 1, 1]})
        session.run(tf.assign_sub(v, tf.reshape(given, [3])))
        pair.check_equal()
        assert session.run(v).tolist() == [-3, -2, -1]


def test_no_answer_leaves_before_the_standby_has_the_change(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", initializer=0)
    pair = Pair(cluster["ps", 0].worker)
    with tf.Session(cluster.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        pair.connect()
        add = tf.assign_add(v, 1)
        assert session.run(add) == 1
        pair.acknowledges = False
        answered = threading.Event()

        def run() -> None:
            session.run(add)
            answered.set()

        thread = threading.Thread(target=run)
        thread.start()
        while pair.journal.status()["acknowledged"] == pair.journal.status()["changes"]:
            threading.Event().wait(0.01)
        assert not answered.wait(0.3)
        pair.journal.acknowledged(STANDBY, pair.journal.status()["changes"], 0)
        thread.join(30)
        assert answered.is_set()
        pair.check_equal()


def test_a_primary_that_another_has_replaced_answers_nobody(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    pair = Pair(cluster["ps", 0].worker)
    pair.connect()
    pair.keeper.view = pair.keeper.view.followed_by(STANDBY)
    told: list[str] = []
    pair.journal.paused()
    for _ in range(500):
        if pair.fenced:
            break
        threading.Event().wait(0.01)
    pair.journal.hold(lambda: told.append("an answer"))
    assert [view.primary for view in pair.fenced] == [STANDBY]
    assert not told


def test_a_difference_is_named(make_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.server.replication.forwarding._DIGEST_CHANGES", 1)
    monkeypatch.setattr("millrace.server.replication.forwarding._DIGEST_SECONDS", 0.0)
    cluster = make_cluster({"ps": 1, "worker": 1})
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", initializer=[1.0, 2.0])
    pair = Pair(cluster["ps", 0].worker)
    errors: list[str] = []
    apply = pair.applier.apply

    def noting(message: Message) -> None:
        try:
            apply(message)
        except Exception as error:
            errors.append(str(error))

    monkeypatch.setattr(pair.applier, "apply", noting)
    with tf.Session(cluster.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        pair.connect()
        add = tf.assign_add(v, [1.0, 1.0])
        session.run(add)
        slot = pair.standby.resources.variable("", "v")
        slot.value = np.asarray(slot.value) + np.float32(0.5)
        session.run(add)
        for _ in range(500):
            if errors:
                break
            threading.Event().wait(0.01)
    assert "1 of 1 variables" in errors[0] and "localhost/v" in errors[0], errors


def followed(pair: Pair) -> None:
    """The standby has what happened to queues, accumulators and tables, as it was."""
    mine = digests(pair.journal.resources.wholes())
    assert mine and digests(pair.applier.mirrors.wholes()) == mine


def test_queues_and_tables_reach_the_standby(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    pair = Pair(cluster["ps", 0].worker)
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.int32, tf.string], [[], []], shared_name="q")
        chosen = tf.RandomShuffleQueue(10, 0, [tf.float32], [[2]], shared_name="r", seed=1)
        table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1, shared_name="t")
        put = queue.enqueue_many([[1, 2, 3], [b"a", b"b", b"c"]])
        taken = queue.dequeue()
        choose = [chosen.enqueue_many([[[1.0, 2.0], [3.0, 4.0]]]), chosen.dequeue()]
        insert = table.insert([b"x", b"y"], tf.constant([1, 2], tf.int64))
        found = table.lookup(tf.constant([b"x", b"z"]))
    with tf.Session(cluster.target("worker")) as session:
        session.run(put)
        pair.connect()  # what is in the queue already is in the snapshot
        followed(pair)
        assert session.run(taken) == [1, b"a"]
        for each in (*choose, insert, put):
            session.run(each)
        assert session.run(found).tolist() == [1, -1]
        followed(pair)
        session.run(queue.close())
        followed(pair)
    assert What.EVENTS in pair.told


def test_what_a_numbered_step_took_is_answered_from_the_record_of_the_standby(
    make_cluster: Any,
) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    pair = Pair(cluster["ps", 0].worker)
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")
        put, taken = queue.enqueue_many([[7, 8]]), queue.dequeue()
    with tf.Session(cluster.target("worker")) as session:
        session.run(put)
        pair.connect()
        for attempt in (1, 2):
            current_attempt.put(StepAttempt(5, 1, 1, attempt))
            assert session.run(taken) == 7
        current_attempt.put(StepAttempt(5, 2, 2, 1))
        assert session.run(taken) == 8
        followed(pair)
    ((_, oldest, (step,)),) = [c for c in pair.standby.record.as_state() if c.client == 5]
    assert (oldest, step.step) == (2, 2)
    assert [np.asarray(o).tolist() for _, outputs in step.applied for o in outputs] == [8]


def test_rounds_reach_the_standby_with_gradients_and_tokens(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    pair = Pair(cluster["ps", 0].worker)
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
        v = tf.get_variable("v", initializer=[1.0, 2.0])
        rows = tf.get_variable("rows", initializer=tf.zeros([5, 2]))
    with tf.device("/job:worker/task:0"):
        loss = tf.reduce_sum(v) + tf.reduce_sum(tf.gather(rows, [1, 3]))
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 1)
    train = optimizer.minimize(loss, global_step=step)
    hook = optimizer.make_session_run_hook(True, num_tokens=0)
    pair.connect()
    with tf.train.MonitoredTrainingSession(
        cluster.target("worker"), is_chief=True, hooks=[hook]
    ) as session:
        for _ in range(5):
            session.run(train)
        assert session.run(step) == 5
        pair.check_equal(record=False)  # The next round has begun, and changed nothing.
        wait_until(lambda: digests(pair.journal.resources.wholes()) == digests(
            pair.applier.mirrors.wholes()
        ))  # fmt: skip
        followed(pair)
        # Each round is a numbered step of the chief.
        assert len(pair.standby.record.as_state()) == 2


def wait_until(holds: Any) -> None:
    for _ in range(1000):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("waited in vain")
