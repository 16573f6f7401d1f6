"""Graphs of clients that are dropped: nothing of them waits for the collector."""

import gc
import weakref

import pytest

import millrace as tf
from millrace.graph.graph import Graph
from millrace.graph.import_graph_def import extend_graph


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def message() -> tf.GraphDef:
    with tf.Graph().as_default() as graph:
        value = tf.constant(1.0)
        for _ in range(5):
            value = tf.cond(value > 0, lambda v=value: v + 1, lambda v=value: v * 2)
        with tf.control_dependencies([value]):
            tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    return graph.as_graph_def()


def operations(graph: Graph) -> list[weakref.ref]:
    graphs = [graph, *(each.graph for each in graph._functions.values())]
    return [weakref.ref(op) for each in graphs for op in each.get_operations()]


def test_a_clients_graph_goes_without_the_collector(no_collector):
    graph = Graph()
    graph._is_clients = True
    extend_graph(graph, message())
    made = operations(graph)
    assert len(made) > 20 and graph._functions
    graph.take_apart()
    assert [op() for op in made if op() is not None] == []


def test_a_function_stays_as_long_as_something_may_call_it(no_collector):
    graph = Graph()
    graph._is_clients = True
    extend_graph(graph, message())
    function = next(iter(graph._functions.values()))
    inside = weakref.ref(function.graph.get_operations()[0])
    graph.take_apart()
    assert inside() is not None and function.outputs[0].op.inputs is not None
    del function
    assert inside() is None


def test_an_import_that_fails_leaves_nothing_with_what_it_was_connected_to():
    graph = Graph()
    first, second = tf.GraphDef(), tf.GraphDef()
    for i in range(2):
        first.node.add(name=f"n{i}", op="NoOp")
    second.node.add(name="waits", op="NoOp", input=["^n0", "^n1"])
    second.node.add(name="wrong", op="Neg", input=["^n0", "n1"]).attr["T"].type = 1
    extend_graph(graph, first)
    with pytest.raises(ValueError):
        extend_graph(graph, second)
    assert [op.name for op in graph.get_operations()] == ["n0", "n1"]
    assert all(not op._control_outputs for op in graph.get_operations())
