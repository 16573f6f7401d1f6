"""Rows that go between tasks: few lengths, ids as they come, sums as they arrive."""

from __future__ import annotations

import pytest

import millrace as tf
from millrace.passes import pipeline
from millrace.passes.bag_rows import bag_rows
from millrace.passes.few_unique import few_unique
from millrace.passes.node import Program
from millrace.passes.route_ids import route_ids
from tests.unit.passes import programs


def until(given: Program, last: pipeline.Pass) -> tuple[Program, Program]:
    """The program before and after a pass, over a cluster."""
    program = given.with_setting(programs.CLUSTER)
    for each in pipeline.CLUSTER:
        before, program = program, each(program)
        if each is last:
            return before, program
    raise AssertionError("no such pass")


def types(program):
    return [node.type for node in program.nodes]


def test_distinct_ids_of_sparse_features_have_few_lengths():
    before, after = until(programs.sparse_features(), few_unique)
    assert "_FewUnique" not in types(before) and types(after).count("_FewUnique") == 1
    assert "_SparseSegmentGradOnHost" in types(after)


def test_in_one_process_they_stay_as_they_are():
    program = programs.sparse_features()
    assert few_unique(program) is program


def test_distinct_ids_that_somebody_sees_stay_as_they_are():
    ids = tf.sparse_placeholder(tf.int64)
    table = tf.Variable(tf.ones([10, 4]))
    unique, places = tf.unique(ids.values)
    rows = tf.nn.embedding_lookup(table, unique)
    summed = tf.sparse_segment_sum(rows, places, tf.cast(ids.indices[:, 0], tf.int32))
    feeds = [ids.indices, ids.values, ids.dense_shape]
    program = programs._program([summed, unique], [], feeds)
    _, after = until(program, few_unique)
    assert "_FewUnique" not in types(after)


@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_routes_take_ids_as_they_come_for_both_ways_to_spread_them(strategy):
    setter = tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")
    with tf.device(setter):
        ids = tf.placeholder(tf.int32, [None], name="ids")
        parts = [tf.Variable(tf.ones([10, 4]), name=f"part_{i}") for i in range(2)]
        rows = tf.nn.embedding_lookup(parts, ids, partition_strategy=strategy)
        loss = tf.reduce_sum(tf.square(rows))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    before, after = until(programs._program([loss], [train], [ids]), route_ids)
    assert types(before).count("_RouteRows") == 1 and "_RouteIds" not in types(before)
    assert types(after).count("_RouteIds") == 1 and "_RouteRows" not in types(after)
    assert len(after.nodes) < len(before.nodes)  # What worked out parts and rows is gone.


def test_rows_that_are_only_added_up_are_added_up_as_they_arrive():
    before, after = until(programs.table_on_two_tasks(), bag_rows)
    assert "_RoutedStitch" in types(before)
    assert "_RoutedStitch" not in types(after)
    assert types(after).count("_BagOfRows") == 2 and types(after).count("_SumBags") == 2
