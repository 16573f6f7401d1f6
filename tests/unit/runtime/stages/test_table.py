"""Which stage a group of nodes becomes."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.passes.node import Setting
from millrace.passes.partitions import split
from millrace.passes.pipeline import for_cluster
from millrace.passes.prune import prune
from millrace.runtime import stages
from millrace.runtime.planning import plan_of
from millrace.runtime.stage import Stage
from millrace.runtime.stages import rows
from tests.cluster.test_split_loops import Builder

WORKER = "/job:worker/replica:0/task:0"
PS, PS1 = "/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"


def kinds(fetches=(), targets=(), feeds=()):
    """The kinds of the stages of a program on one task."""
    plan = plan_of(prune(list(fetches), [getattr(t, "op", t) for t in targets], list(feeds)))
    return [type(stage).__name__ for stage in plan.stages]


def kinds_on(task, fetches=(), targets=(), feeds=()):
    """The same of a partition of a program on several tasks."""
    devices = tuple(f"{each}/device:CPU:0" for each in (WORKER, PS, PS1))
    setting = Setting(devices=devices, home=WORKER)
    targets = [getattr(t, "op", t) for t in targets]
    whole = for_cluster(prune(list(fetches), targets, list(feeds), setting))
    return [type(stage).__name__ for stage in plan_of(split(whole)[task].program).stages]


def test_pure_nodes_are_one_compiled_stage():
    x = tf.placeholder(tf.float32, [2])
    assert kinds([tf.reduce_sum(tf.square(x) + 1.0)], feeds=[x]) == ["CompiledStage"]


def test_a_small_assignment_and_a_counter_need_no_program():
    given = tf.placeholder(tf.int64, [])
    local = tf.Variable(np.int64(0), name="local")
    count = tf.Variable(np.int64(0), name="count")
    assert kinds(targets=[tf.assign(local, given)], feeds=[given]) == ["AssignStage"]
    assert kinds(targets=[tf.assign_add(count, 1)]) == ["CountStage"]


def test_what_goes_between_tasks_is_sent_and_received():
    with tf.device(PS):
        v = tf.Variable([1.0, 2.0], name="v")
        update = tf.assign_sub(v, tf.py_func(lambda: np.ones(2, np.float32), [], tf.float32))
    with tf.device(WORKER):
        y = tf.identity(update) * 2.0
    assert "SendStage" in kinds_on(PS, [y])
    assert "ReceiveStage" in kinds_on(WORKER, [y])


def test_rows_of_a_large_table_are_taken_and_updated_where_they_lie(monkeypatch):
    monkeypatch.setattr(rows, "MIN_TABLE_BYTES", 0)
    tables = []
    for device in (PS, PS1):
        with tf.device(device):
            tables.append(tf.Variable(tf.zeros([8, 2]), name="table"))
    with tf.device(WORKER):
        ids = tf.placeholder(tf.int32, [None])
        loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(tables, ids)))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    found = kinds_on(PS, [loss], [train], [ids])
    assert "SentRowsStage" in found and "UpdateStage" in found


def test_accumulators_and_queues_are_looked_up_by_their_users():
    accumulator = tf.ConditionalAccumulator(tf.float32, [2], shared_name="a")
    queue = tf.FIFOQueue(3, tf.float32, [[]], shared_name="q")
    found = kinds([accumulator.take_grad(1), queue.dequeue(), queue.size()])
    assert sorted(found) == ["DequeueStage", "HandleStage", "TakeGradientsStage"]
    applied = accumulator.apply_grad(tf.placeholder_with_default([1.0, 2.0], [2]), 0)
    assert "ApplyGradientsStage" in kinds(targets=[applied])


def test_branches_and_loops_with_state_and_regions_have_stages_of_their_own():
    v = tf.Variable(0.0, name="v")
    chosen = tf.placeholder_with_default(True, [])
    branch = tf.cond(chosen, lambda: tf.assign_add(v, 1.0), v.read_value)
    assert "BranchStage" in kinds([branch])
    build = Builder()
    build.device = ""
    build.constant("start", np.int32(0))
    build.constant("limit", np.int32(3))
    build.count("i", "loop", "start", "limit")
    build.done()
    assert kinds([tf.get_default_graph().get_tensor_by_name("i/exit:0")]) == ["RegionStage"]


def test_whatever_is_left_runs_on_the_host():
    assert kinds([tf.as_string(tf.placeholder_with_default(1.0, []))])[-1] == "HostStage"


def test_the_last_row_applies_to_everything_and_no_two_rows_say_the_same():
    assert stages.TABLE[-1].applies(stages.Group([], False, set(), "", None))  # type: ignore[arg-type]
    words = [row.what for row in stages.TABLE]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("name", ["name", "node", "nodes", "inputs", "outputs", "may_block"])
def test_every_stage_has_what_the_interface_says(name):
    queue = tf.FIFOQueue(3, tf.float32, [[]])
    fetched = tf.as_string(queue.dequeue() * 2.0)
    found: list[Stage] = plan_of(prune([fetched], [], [])).stages
    for stage in found:
        assert hasattr(stage, name)
        assert stage.is_short in (True, False)
