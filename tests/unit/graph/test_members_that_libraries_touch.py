"""Members with one underscore that libraries written for TensorFlow 1 use, and threads."""

from __future__ import annotations

import threading

import millrace as tf


def test_operations_and_tensors_show_their_insides() -> None:
    with tf.Graph().as_default() as graph:
        c = tf.constant([1.0, 2.0], name="c")
        assert c._op is c.op
        assert c._value_index == 0
        assert c._shape_tuple() == (2,)
        assert c._as_node_def_input() == "c"
        assert c.op._node_def.name == "c"
        assert c.op._op_def.name == "Const"
        assert c.op._graph is graph
        assert c.op._output_types == [tf.float32]
        assert graph._nodes_by_name["c"] is c.op
        assert graph._nodes_by_id[c.op._id] is c.op
        assert not graph.building_function


def test_variables_are_in_graph_mode_and_under_no_strategy() -> None:
    with tf.Graph().as_default():
        for use_resource in (False, True):
            v = tf.get_variable(f"v{use_resource}", [2], use_resource=use_resource)
            assert v._in_graph_mode
            assert v._distribute_strategy is None
            assert v._shared_name == v.op.name


def test_a_saver_adds_collections_to_a_meta_graph() -> None:
    with tf.Graph().as_default():
        tf.get_variable("v", [2])
        message = tf.MetaGraphDef()
        tf.train.Saver()._add_collection_def(message, tf.GraphKeys.GLOBAL_VARIABLES)
        assert list(message.collection_def) == ["variables"]


def test_scopes_are_of_one_thread_after_the_switch() -> None:
    graph = tf.Graph()
    devices = {}
    entered, done = threading.Event(), threading.Event()

    def other() -> None:
        with graph.as_default(), graph.device("/cpu:3"):
            entered.set()
            assert done.wait(30)

    with graph.device("/job:ps"):
        graph.switch_to_thread_local()
        thread = threading.Thread(target=other)
        thread.start()
        assert entered.wait(30)
        with graph.as_default():
            devices["here"] = tf.constant(1).device
        done.set()
        thread.join()
    assert devices == {"here": "/job:ps"}


def test_a_session_can_be_entered_twice_and_used_by_two_threads() -> None:
    with tf.Graph().as_default():
        c = tf.constant(3)
        session = tf.Session()
        found = []

        def run() -> None:
            with session.as_default():
                found.append(c.eval())

        with session:
            threads = [threading.Thread(target=run) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with session.as_default():
                assert c.eval() == 3
        assert found == [3, 3]
