"""An error of another process names the operation, and the line that built it."""

from __future__ import annotations

import millrace as tf
from millrace.core import errors
from millrace.rpc.failed_node import explained, with_marked_node

CODE = errors.INVALID_ARGUMENT


def test_a_named_node_is_found_with_its_line() -> None:
    graph = tf.Graph()
    with graph.as_default():
        op = tf.constant(1.0, name="scope/c").op
    error = explained(CODE, "bad value [[{{node scope/c}} (Const)]] in step 3", graph)
    assert isinstance(error, errors.InvalidArgumentError) and error.op is op
    assert "[[node scope/c (Const) defined at " in error.message
    assert f"{__file__}:" in error.message and error.message.endswith("]] in step 3")


def test_a_node_that_the_graph_does_not_have_changes_nothing() -> None:
    text = "bad value [[node gone (Const)]]"
    for graph in (None, tf.Graph()):
        error = explained(CODE, text, graph)
        assert error.message == text and error.op is None


def test_a_node_is_marked_for_clients_of_tensorflow() -> None:
    error = errors.InvalidArgumentError(None, None, "bad [[node a/b (Add)]] and [[node c (D)]]")
    marked = with_marked_node(error)
    assert marked.message == "bad [[{{node a/b}} (Add)]] and [[{{node c}} (D)]]"
    assert type(marked) is type(error)
