"""`extend_graph`: how a client's graph grows on a server."""

from __future__ import annotations

import pytest
from tensorboard.compat.proto import graph_pb2

import millrace as tf
from millrace.graph.import_graph_def import extend_graph


def parts(whole: tf.Graph, first: int) -> tuple[graph_pb2.GraphDef, graph_pb2.GraphDef]:
    """A graph as two messages: its first nodes, and the others."""
    message = whole.as_graph_def()
    one, two = graph_pb2.GraphDef(), graph_pb2.GraphDef()
    one.node.extend(message.node[:first])
    two.node.extend(message.node[first:])
    return one, two


def two_parts() -> tuple[graph_pb2.GraphDef, graph_pb2.GraphDef]:
    with tf.Graph().as_default() as whole:
        a = tf.placeholder(tf.float32, [2], name="a")
        with tf.device("/job:ps/task:1"):
            tf.identity(a, name="b")
        with tf.colocate_with(a):
            tf.negative(a, name="c")
        with tf.control_dependencies([a]):
            tf.no_op(name="d")
    return parts(whole, 1)


def test_what_is_added_may_use_what_is_there() -> None:
    one, two = two_parts()
    graph = tf.Graph()
    extend_graph(graph, one)
    extend_graph(graph, two)
    b, c = graph.get_operation_by_name("b"), graph.get_operation_by_name("c")
    assert [t.name for t in b.inputs] == ["a:0"]
    assert [op.name for op in graph.get_operation_by_name("d").control_inputs] == ["a"]
    assert b.device == "/job:ps/task:1"
    assert c.colocation_groups() == [b"loc:@a"]


def test_a_node_that_is_there_already_is_refused_and_nothing_is_added() -> None:
    one, two = two_parts()
    graph = tf.Graph()
    extend_graph(graph, one)
    two.node.extend(one.node)
    with pytest.raises(ValueError, match="includes node 'a', which was created by a previous call"):
        extend_graph(graph, two)
    assert [op.name for op in graph.get_operations()] == ["a"]


def test_an_input_that_is_nowhere_is_refused() -> None:
    _, two = two_parts()
    with pytest.raises(ValueError, match="Node 'b': Unknown input node 'a'"):
        extend_graph(tf.Graph(), two)


def test_a_node_that_is_colocated_with_itself_keeps_its_device() -> None:
    with tf.Graph().as_default() as whole, tf.device("/job:ps/task:0"):
        variable = tf.get_variable("v", [2], use_resource=True)
    assert variable.handle.op.colocation_groups() == [b"loc:@v"]
    message = whole.as_graph_def()
    next(n for n in message.node if n.name == "v").attr["_class"].list.s.append(b"loc:@v")
    for add in (extend_graph, lambda graph, message: _import(graph, message)):
        graph = tf.Graph()
        add(graph, message)
        assert graph.get_operation_by_name("v").device == "/job:ps/task:0"


def _import(graph: tf.Graph, message: graph_pb2.GraphDef) -> None:
    with graph.as_default():
        tf.import_graph_def(message, name="")
