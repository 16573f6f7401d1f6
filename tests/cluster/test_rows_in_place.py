"""Rows of tables on parameter servers are taken and updated where they lie."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import store_snapshot
from millrace.runtime.resources import VariableSlot
from millrace.runtime.stages import rows

ROWS, WIDTH = 60, 4


@pytest.fixture(autouse=True)
def all_tables_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MIN_TABLE_BYTES", 0)


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The stages that work on rows, as they are made."""
    made: list[Any] = []
    original = rows.row_stage

    def note(*args: Any) -> Any:
        made.append(original(*args))
        return made[-1]

    monkeypatch.setattr(rows, "row_stage", note)
    return made


class Trainer:
    """A table in two parts on two servers, and a step that trains it."""

    def __init__(self, cluster: Any, optimizer: Any, resource: bool = False) -> None:
        start = np.linspace(-1, 1, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
        device = tf.train.replica_device_setter(
            cluster=tf.train.ClusterSpec(cluster.spec), worker_device="/job:worker/task:0"
        )
        self.cluster = cluster
        with tf.device(device):
            self.ids = tf.placeholder(tf.int64, [None])
            table = tf.get_variable(
                "table",
                initializer=tf.constant(start),
                partitioner=tf.fixed_size_partitioner(2),
                use_resource=resource,
            )
            rows = tf.nn.embedding_lookup(table, self.ids, partition_strategy="div")
            self.loss = tf.reduce_sum(tf.square(rows - 0.5) * tf.constant([1.0, 2.0, 3.0, 4.0]))
            self.step = optimizer.minimize(self.loss)
        self.table = list(table)
        self.session = tf.Session(cluster.target("worker"))
        self.session.run(tf.global_variables_initializer())

    def train(self, *ids: int) -> Any:
        return self.session.run([self.loss, self.step], {self.ids: ids})[0]

    def slots(self) -> dict[str, VariableSlot]:
        """All variables on the parameter servers that are as large as a part of the table."""
        return {
            f"{task}/{name}": slot
            for task, server in self.cluster.servers.items()
            for _, name, slot in server.worker.resources.all_of(VariableSlot)
            if slot.value is not None and slot.value.shape == (ROWS // 2, WIDTH)
        }

    def values(self) -> dict[str, Any]:
        return {name: np.array(slot.value) for name, slot in self.slots().items()}


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.5),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


@pytest.mark.parametrize(
    ("optimizer", "resource"),
    [("adagrad", False), ("momentum", True), ("descent", False), ("ftrl", True)],
)
def test_rows_become_what_xla_alone_makes_of_them(
    optimizer: str,
    resource: bool,
    make_cluster: Any,
    stages: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = [(1, 1, 59, 30, 2), (0, 29, 30, 59), (5, 5, 5)]
    results = []
    for least in (0, 1 << 40):
        monkeypatch.setattr(rows, "MIN_TABLE_BYTES", least)
        with tf.Graph().as_default():
            trainer = Trainer(
                make_cluster({"ps": 2, "worker": 1}), OPTIMIZERS[optimizer](), resource
            )
            results.append(([trainer.train(*batch) for batch in batches], trainer.values()))
            trainer.session.close()
    assert sum(isinstance(stage, rows.UpdateStage) for stage in stages) == 2
    assert sum(isinstance(stage, rows.TakeStage) for stage in stages) == 2
    # Large or not, rows of several tasks are joined on the host.
    assert sum(isinstance(stage, rows.StitchStage) for stage in stages) == 2
    (losses, tables), (wanted_losses, wanted_tables) = results
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-6)
    assert len(tables) >= 2
    for name, wanted in wanted_tables.items():
        np.testing.assert_allclose(tables[name], wanted, rtol=1e-6, atol=1e-6)


def test_a_step_changes_no_other_rows_and_makes_no_other_table(make_cluster: Any) -> None:
    trainer = Trainer(make_cluster({"ps": 2, "worker": 1}), OPTIMIZERS["adagrad"]())
    trainer.train(0)  # Rows of a constant are not the variable's own.
    before = trainer.values()
    places = {name: slot.value.unsafe_buffer_pointer() for name, slot in trainer.slots().items()}
    assert len(places) == 4
    for i in range(5):
        trainer.train(7, i, 59 - i)
    after = trainer.values()
    changed = {name: set(np.flatnonzero((after[name] != before[name]).any(1))) for name in after}
    first = next(iter(changed.values()))
    assert first == {7, 0, 1, 2, 3, 4} or first == {25, 26, 27, 28, 29}
    assert {
        name: slot.value.unsafe_buffer_pointer() for name, slot in trainer.slots().items()
    } == places
    trainer.session.close()


def test_who_looks_at_a_table_keeps_what_he_saw(make_cluster: Any) -> None:
    trainer = Trainer(make_cluster({"ps": 2, "worker": 1}), OPTIMIZERS["adagrad"]())
    trainer.train(3)
    looks = {name: np.asarray(slot.value) for name, slot in trainer.slots().items()}
    seen = {name: look.copy() for name, look in looks.items()}
    trainer.train(3, 40)
    for name, value in trainer.values().items():
        np.testing.assert_array_equal(looks[name], seen[name])
        assert (value != seen[name]).any()
    trainer.session.close()


def test_an_array_that_became_a_table_is_not_written(make_cluster: Any) -> None:
    trainer = Trainer(make_cluster({"ps": 2, "worker": 1}), OPTIMIZERS["descent"]())
    given = np.ones((ROWS // 2, WIDTH), np.float32)
    for part in trainer.table:
        part.load(given, trainer.session)
    trainer.train(0, 1, 50)
    np.testing.assert_array_equal(given, 1)
    assert (np.asarray(trainer.session.run(trainer.table[0]))[:2] != 1).all()
    trainer.session.close()


@pytest.mark.parametrize("bad", [-1, ROWS + 5])
def test_an_id_without_a_row_is_an_error_and_changes_nothing(bad: int, make_cluster: Any) -> None:
    trainer = Trainer(make_cluster({"ps": 2, "worker": 1}), OPTIMIZERS["adagrad"]())
    trainer.train(1)
    before = trainer.values()
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        trainer.train(1, bad)
    for name, value in trainer.values().items():
        np.testing.assert_array_equal(value, before[name])
    trainer.train(1)
    trainer.session.close()


def test_a_table_without_a_value_is_an_error(make_cluster: Any) -> None:
    trainer = Trainer(make_cluster({"ps": 2, "worker": 1}), OPTIMIZERS["adagrad"]())
    for slot in trainer.slots().values():
        slot.value = None
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value table"):
        trainer.train(1)
    trainer.session.close()


def test_a_step_sends_each_row_once_each_way_and_little_else(make_cluster: Any) -> None:
    """What docs/performance.md says of the embedding's step, counted."""
    rows, width = 20_000, 64
    cluster = make_cluster({"ps": 2, "worker": 1}, "socket")
    device = tf.train.replica_device_setter(
        cluster=tf.train.ClusterSpec(cluster.spec), worker_device="/job:worker/task:0"
    )
    with tf.device(device):
        step = tf.train.get_or_create_global_step()
        ids = tf.placeholder(tf.int64, [2048])
        table = tf.get_variable("table", [rows, width], partitioner=tf.fixed_size_partitioner(2))
        found = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
        weights = tf.Variable(tf.ones([width, 1]))
        loss = tf.reduce_mean(tf.square(tf.matmul(found, weights)))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
    random = np.random.default_rng(0)
    batches = [random.integers(0, rows, 2048) for _ in range(10)]
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run([train, loss], {ids: batches[0]})
        costs = []
        for batch in batches:
            before = counts(cluster)
            sess.run([train, loss], {ids: batch})
            after = counts(cluster)
            least = len(np.unique(batch)) * (8 + 2 * 4 * width)
            costs.append(
                (after[0] - before[0], (after[1] - before[1]) / least, after[2] - before[2])
            )
    # Of most steps: where one takes long, tasks ask each other whether they live; and what the
    # last message of a step counts may be seen in the next.
    messages, sent, calls = map(statistics.median, zip(*costs, strict=True))
    # To each ps: indices with what to run, gradients; from each: rows, that it is done; from one
    # to the other that its part of the table is updated, before the global step is.
    assert messages <= 9
    # The worker: gradients. Each ps: rows of the table; one of them: another variable.
    assert calls <= 4
    assert sent < 1.2


def counts(cluster: Any) -> tuple[int, int, int]:
    """Messages, bytes and XLA calls of all tasks so far."""
    traffic = [t for server in cluster.servers.values() for t in server.peers.traffic().values()]
    return (
        sum(t.messages_sent for t in traffic),
        sum(t.bytes_sent for t in traffic),
        sum(server.worker.xla_calls for server in cluster.servers.values()),
    )


def test_nobody_sees_half_of_an_update(make_cluster: Any) -> None:
    """All columns of a row change alike, whoever reads and writes at the same time."""
    cluster = make_cluster({"ps": 2, "worker": 1})
    device = tf.train.replica_device_setter(
        cluster=tf.train.ClusterSpec(cluster.spec), worker_device="/job:worker/task:0"
    )
    with tf.device(device):
        ids = tf.placeholder(tf.int64, [None])
        table = tf.get_variable(
            "table",
            initializer=tf.zeros([ROWS, 256]),
            partitioner=tf.fixed_size_partitioner(2),
        )
        rows = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
        train = tf.train.GradientDescentOptimizer(1.0).minimize(-tf.reduce_sum(rows))
    sess = tf.Session(cluster.target("worker"))
    sess.run(tf.global_variables_initializer())
    batch = np.arange(0, ROWS, 2)
    steps, trainers = 25, 3
    torn: list[Any] = []
    done = threading.Event()

    def write() -> None:
        for _ in range(steps):
            sess.run(train, {ids: batch})

    def read() -> None:
        while not done.is_set():
            for found in (*sess.run(list(table)), sess.run(rows, {ids: batch})):
                if (found != found[:, :1]).any():
                    torn.append(found)

    writers = [threading.Thread(target=write) for _ in range(trainers)]
    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert not torn
    for found in sess.run(list(table)):
        assert (found[::2] == steps * trainers).all() and not found[1::2].any()
    sess.close()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_snapshot_keeps_rows_as_they_were(make_cluster: Any, name: str) -> None:
    trainer = Trainer(make_cluster({"ps": 2, "worker": 1}), OPTIMIZERS[name]())
    trainer.train(1, 5, 40)
    held = [
        store_snapshot.take(server.worker.resources) for server in trainer.cluster.servers.values()
    ]
    before = [{key: np.array(value) for key, value in each} for each in held]
    now = trainer.values()
    trainer.train(1, 6, 41)
    assert any(not np.array_equal(value, now[key]) for key, value in trainer.values().items())
    for snapshot, values in zip(held, before, strict=True):
        for key, value in snapshot:
            np.testing.assert_array_equal(value, values[key])
    trainer.session.close()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_of_a_large_table_are_kept_and_the_table_is_not_copied(
    make_cluster: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_snapshot, "MIN_HELD_BYTES", 0)
    trainer = Trainer(make_cluster({"ps": 2, "worker": 1}), OPTIMIZERS[name]())
    trainer.train(1, 5, 40)
    before = trainer.values()
    places = {key: slot.value.unsafe_buffer_pointer() for key, slot in trainer.slots().items()}
    held = {
        task: store_snapshot.take(server.worker.resources)
        for task, server in trainer.cluster.servers.items()
    }
    for i in range(4):
        trainer.train(1, 6 + i, 41, 59)
    now = trainer.values()
    assert any(not np.array_equal(now[key], before[key]) for key in now)
    assert places == {k: slot.value.unsafe_buffer_pointer() for k, slot in trainer.slots().items()}
    for task, snapshot in held.items():
        for (_, variable), value in snapshot:
            if (key := f"{task}/{variable}") in before:
                np.testing.assert_array_equal(value, before[key])
        snapshot.release()
    assert all(slot.held is None for slot in trainer.slots().values())
    trainer.session.close()


def test_a_table_that_is_replaced_after_its_rows_were_kept_stays_in_the_snapshot(
    make_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_snapshot, "MIN_HELD_BYTES", 0)
    trainer = Trainer(make_cluster({"ps": 2, "worker": 1}), OPTIMIZERS["descent"]())
    trainer.train(1, 5, 40)
    before = trainer.values()
    held = {
        task: store_snapshot.take(server.worker.resources)
        for task, server in trainer.cluster.servers.items()
    }
    trainer.train(1, 6, 41)
    trainer.session.run([tf.assign_add(part, tf.ones_like(part)) for part in trainer.table])
    trainer.train(1, 7, 42)
    for task, snapshot in held.items():
        for (_, variable), value in snapshot:
            if (key := f"{task}/{variable}") in before:
                np.testing.assert_array_equal(value, before[key])
        snapshot.release()
    trainer.session.close()
