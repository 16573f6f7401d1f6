"""A snapshot of a store holds references: every way to write a variable leaves it as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors
from millrace.core.resource_handle import ResourceHandle
from millrace.runtime import store_snapshot
from millrace.runtime.resources import ResourceStore, VariableSlot
from millrace.runtime.store_snapshot import StoreSnapshot
from millrace.runtime.tiers import Mode

ROWS, WIDTH = 4096, 64
Write = Callable[[Any], Any]


def store_of(session: Any) -> ResourceStore:
    store: ResourceStore = session._backend.state.resources
    return store


def values_of(snapshot: StoreSnapshot) -> dict[str, Any]:
    return {name: np.array(value) for (_, name), value in snapshot}


WRITES: dict[str, Write] = {
    "assign": lambda v: tf.assign(v, tf.ones([ROWS, WIDTH])),
    "assign_add": lambda v: tf.assign_add(v, tf.ones([ROWS, WIDTH])),
    "scatter_update": lambda v: tf.scatter_update(v, [3, 5], tf.ones([2, WIDTH])),
    "scatter_add": lambda v: tf.scatter_add(v, [3, 3], tf.ones([2, WIDTH])),
    "scatter_nd": lambda v: tf.scatter_nd_update(v, [[3], [5]], tf.ones([2, WIDTH])),
    "strided": lambda v: v[2:4].assign(tf.ones([2, WIDTH])),
    "sgd": lambda v: tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(v * v + v)),
    "momentum": lambda v: tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(v + v)),
    "adam": lambda v: tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(v + v)),
    "sparse adagrad": lambda v: tf.train.AdagradOptimizer(0.1).minimize(
        tf.reduce_sum(tf.gather(v, [1, 7, 7]))
    ),
    "sparse adam": lambda v: tf.train.AdamOptimizer(0.1).minimize(
        tf.reduce_sum(tf.gather(v, [1, 7, 7]))
    ),
    "branch": lambda v: tf.cond(
        tf.constant(True), lambda: tf.assign_add(v, v), lambda: tf.identity(v)
    ),
}


@pytest.mark.parametrize("mode", [Mode.NOW, Mode.NEVER], ids=["XLA", "NumPy"])
@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_no_write_changes_what_is_held(
    write: Write, resource: bool, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_COMPILE", mode.value)
    with tf.Graph().as_default(), tf.Session() as session:
        start = np.linspace(-1, 1, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
        variable = tf.get_variable("v", initializer=tf.constant(start), use_resource=resource)
        update = write(variable)
        session.run(tf.global_variables_initializer())
        session.run(update)  # Whatever it makes the first time is there.
        snapshot = store_snapshot.take(store_of(session))
        before = values_of(snapshot)
        for _ in range(3):
            session.run(update)
        after = values_of(snapshot)
        assert before.keys() == after.keys()
        for name, value in before.items():
            np.testing.assert_array_equal(after[name], value, err_msg=name)
        if write is not WRITES["assign"]:
            now = values_of(store_snapshot.take(store_of(session)))
            changed = [name for name in now if not np.array_equal(now[name], before[name])]
            unchanging = ("scatter_update", "scatter_nd", "strided")
            assert changed or write in [WRITES[name] for name in unchanging]


def test_a_counter_is_replaced_not_changed() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.get_or_create_global_step()
        more = tf.assign_add(step, 1)
        session.run(tf.global_variables_initializer())
        session.run(more)
        snapshot = store_snapshot.take(store_of(session))
        session.run(more)
        assert values_of(snapshot)["global_step"] == 1
        assert session.run(step) == 2


def test_updates_are_in_place_again_once_it_is_released() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", [ROWS, WIDTH])
        update = tf.assign_add(variable, tf.ones([ROWS, WIDTH]))
        session.run(tf.global_variables_initializer())
        (slot,) = (slot for _, _, slot in store_of(session).all_of(VariableSlot))

        def place() -> int:
            return int(np.asarray(slot.value).__array_interface__["data"][0])

        session.run(update.op)
        held = place()
        session.run(update.op)
        assert place() == held
        snapshot = store_snapshot.take(store_of(session))
        assert snapshot.nbytes == ROWS * WIDTH * 4
        session.run(update.op)
        assert place() != held
        held = place()
        snapshot.release()
        session.run(update.op)
        assert place() == held
        assert snapshot.nbytes == 0


def test_it_is_one_instant_while_threads_update() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        zeros = tf.zeros_initializer()
        variables = [tf.get_variable(f"v{i}", [1000], initializer=zeros) for i in range(4)]
        # One stage: all variables are locked together.
        update = tf.group(*[tf.assign_add(v, tf.ones([1000])) for v in variables])
        session.run(tf.global_variables_initializer())
        stop = threading.Event()

        def train() -> None:
            while not stop.is_set():
                session.run(update)

        threads = [threading.Thread(target=train) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(50):
                snapshot = store_snapshot.take(store_of(session))
                assert len({float(x) for v in values_of(snapshot).values() for x in v}) == 1
                snapshot.release()
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def test_a_plan_runs_on_it_as_on_a_store() -> None:
    store = ResourceStore()
    store.variable("", "v").value = np.arange(3)
    other = store.get_or_create(dict, "", "table", dict)
    snapshot = store_snapshot.take(store)
    store.variable("", "v").value = np.zeros(3)
    np.testing.assert_array_equal(snapshot.variable("", "v").value, np.arange(3))
    assert snapshot.variable("", "unknown").value is None
    assert snapshot.get_or_create(dict, "", "table", dict) is other
    assert [name for _, name, _ in snapshot.all_of(dict)] == ["table"]
    with pytest.raises(errors.FailedPreconditionError):
        snapshot.remove(VariableSlot, ResourceHandle("", "v"))
