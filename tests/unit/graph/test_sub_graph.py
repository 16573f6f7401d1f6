"""`tf.graph_util`: cutting graphs and freezing variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf


def names(graph_def: Any) -> list[str]:
    return [node.name for node in graph_def.node]


def test_a_sub_graph_is_what_its_ends_need_in_the_old_order(graph: tf.Graph) -> None:
    a = tf.constant(1.0, name="a")
    b = tf.constant(2.0, name="b")
    with tf.control_dependencies([b]):
        c = tf.negative(a, name="c")
    tf.add(a, b, name="unrelated")
    with graph.colocate_with(tf.constant(0.0, name="home").op):
        tf.negative(c, name="d")
    cut = tf.graph_util.extract_sub_graph(graph.as_graph_def(), ["d"])
    assert names(cut) == ["a", "b", "c", "home", "d"]
    assert cut.versions == graph.as_graph_def().versions


def test_a_sub_graph_is_asked_for_by_names_of_nodes(graph: tf.Graph) -> None:
    graph_def = graph.as_graph_def()
    with pytest.raises(TypeError, match="dest_nodes must be an iterable of strings"):
        tf.graph_util.extract_sub_graph(graph_def, "a")
    with pytest.raises(TypeError, match="graph_def must be a graph_pb2.GraphDef proto"):
        tf.graph_util.extract_sub_graph(graph, ["a"])
    with pytest.raises(AssertionError, match="a:0 is not in graph"):
        tf.graph_util.extract_sub_graph(graph_def, ["a:0"])


def test_training_nodes_are_spliced_out(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    checked = tf.check_numerics(x, "bad", name="checked")
    plain = tf.identity(tf.stop_gradient(checked, name="stopped"), name="plain")
    gate = tf.identity(x, name="gate")
    with tf.control_dependencies([gate]):
        waits = tf.identity(plain, name="waits")
    tf.negative(waits, name="out")
    small = tf.graph_util.remove_training_nodes(graph.as_graph_def())
    # `gate` is a control input and `waits` has one, so both stay.
    assert {node.name: list(node.input) for node in small.node} == {
        "x": [],
        "gate": ["x"],
        "waits": ["x", "^gate"],
        "out": ["waits"],
    }


def test_a_protected_node_stays(graph: tf.Graph) -> None:
    tf.identity(tf.identity(tf.constant(1.0, name="c"), name="a"), name="b")
    small = tf.graph_util.remove_training_nodes(graph.as_graph_def(), protected_nodes=["b"])
    assert {node.name: list(node.input) for node in small.node} == {"c": [], "b": ["c"]}


def test_shapes_are_found_by_the_names_in_node_defs(graph: tf.Graph) -> None:
    tf.placeholder(tf.float32, [None, 2], name="x")
    for name in ("x", "x:0"):
        assert tf.graph_util.tensor_shape_from_node_def_name(graph, name).as_list() == [None, 2]


def test_some_nodes_run_on_the_cpu_only() -> None:
    assert tf.graph_util.must_run_on_cpu(tf.constant(1).op)
    assert tf.graph_util.must_run_on_cpu(tf.constant("a").op.node_def)
    assert tf.graph_util.must_run_on_cpu(tf.cast(tf.constant(1), tf.float32).op)
    assert not tf.graph_util.must_run_on_cpu(tf.constant(1.0).op)
    update = tf.assign(tf.Variable(1.0, use_resource=False), 2.0).op
    assert tf.graph_util.must_run_on_cpu(update, pin_variables_on_cpu=True)
    assert not tf.graph_util.must_run_on_cpu(update)


# -- Freezing --------------------------------------------------------------------------------


def model(use_resource: bool) -> None:
    with tf.variable_scope("m", use_resource=use_resource):
        v = tf.get_variable("v", initializer=[1.0, 2.0])
        w = tf.get_variable("w", initializer=3.0)
        table = tf.get_variable("table", initializer=np.arange(8, dtype=np.float32).reshape(4, 2))
    ids = tf.placeholder_with_default([1, 2], [2], name="ids")
    tf.identity(tf.gather(table, ids) + v * w, name="out")


@pytest.mark.parametrize("use_resource", [False, True])
def test_frozen_variables_are_constants_with_their_values(
    graph: tf.Graph, use_resource: bool
) -> None:
    model(use_resource)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(tf.global_variables()[1], 5.0))
        expected = session.run("out:0")
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["out"]
        )
    kinds = {node.op for node in frozen.node}
    assert not kinds & {"VariableV2", "VarHandleOp", "ReadVariableOp", "ResourceGather", "Assign"}
    with tf.Graph().as_default():
        tf.import_graph_def(frozen, name="")
        with tf.Session() as session:
            np.testing.assert_array_equal(session.run("out:0"), expected)
            assert session.run("out:0", {"ids:0": [0, 0]}).tolist() == [[5, 11], [5, 11]]


@pytest.mark.parametrize("use_resource", [False, True])
def test_lists_choose_the_variables_to_freeze(graph: tf.Graph, use_resource: bool) -> None:
    model(use_resource)
    variable = "VarHandleOp" if use_resource else "VariableV2"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        def left(**lists: Any) -> list[str]:
            frozen = tf.graph_util.convert_variables_to_constants(
                session, graph.as_graph_def(), ["out"], **lists
            )
            return [node.name for node in frozen.node if node.op == variable]

        assert left(variable_names_whitelist=["m/v"]) == ["m/w", "m/table"]
        assert left(variable_names_blacklist=["m/v"]) == ["m/v"]


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_in_branches_and_loops_are_frozen_too(
    graph: tf.Graph, use_resource: bool
) -> None:
    v = tf.get_variable("v", initializer=[2.0, 3.0], use_resource=use_resource)
    p = tf.placeholder(tf.bool, [], name="p")

    def body(i: Any, x: Any) -> Any:
        return i + 1, tf.cond(i > 1, lambda: x * v, lambda: x + v)

    start = tf.cond(p, lambda: v * 2.0, lambda: tf.gather(v, [1, 0]))
    tf.identity(tf.while_loop(lambda i, x: i < 3, body, [0, start])[1], name="out")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        expected = [session.run("out:0", {p: taken}).tolist() for taken in (True, False)]
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["out"]
        )
    with tf.Graph().as_default():
        tf.import_graph_def(frozen, name="")
        with tf.Session() as session:
            found = [session.run("out:0", {"p:0": taken}).tolist() for taken in (True, False)]
    assert found == expected


def test_a_handle_that_goes_elsewhere_cannot_be_frozen(graph: tf.Graph) -> None:
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    with tf.control_dependencies([v.assign_add(1.0)]):
        tf.identity(v.read_value(), name="out")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.UnimplementedError, match="AssignAddVariableOp.* takes its"):
            tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["out"])


def test_a_graph_without_variables_is_only_cut(graph: tf.Graph) -> None:
    tf.constant(1.0, name="a")
    tf.constant(2.0, name="b")
    with tf.Session() as session:
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["b"])
    assert names(frozen) == ["b"]
