"""Calls of functions: run as if what they contain stood in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core.tensor_shape import TensorShape
from millrace.graph.function import FuncGraph, Function, add_function
from millrace.ops.control_flow import frames as v1
from millrace.ops.functions import function_call
from millrace.passes.inline import inline_calls
from millrace.passes.node import Program
from millrace.passes.prune import prune


def inlined(*arguments: Any) -> Program:
    return inline_calls(prune(*arguments))


def function(name: str, build: Callable[..., Any], *types: Any) -> Function:
    """A function of the default graph; `build` returns results, and operations to run besides."""
    graph = tf.get_default_graph()
    body = FuncGraph(name, graph)
    arguments = [body.add_argument(t, TensorShape(None), f"x{i}") for i, t in enumerate(types)]
    with body.as_default():
        outputs, controls = build(*arguments)
    made = Function(body, outputs, controls)
    add_function(graph, made)
    return made


def call(made: Function, *args: Any) -> list[Any]:
    types = [t.dtype.base_dtype for t in made.outputs]
    return function_call.StatefulPartitionedCall.operation(list(args), f=made, Tout=types).outputs


def test_a_call_becomes_the_nodes_of_the_function() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [2])
        double = function("double", lambda a: ([a * 2.0], []), tf.float32)
        quadruple = function(
            "quadruple", lambda a: ([call(double, call(double, a)[0])[0]], []), tf.float32
        )
        y = call(quadruple, x)[0]
        program = inlined([y], [], [x])
        assert sorted(node.type for node in program.nodes if node.type != "Const") == ["Mul", "Mul"]
        assert sess.run(y, {x: [1.0, 3.0]}).tolist() == [4.0, 12.0]


def test_a_function_may_return_its_argument() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [])
        y = call(function("same", lambda a: ([a], []), tf.float32), x)[0]
        assert sess.run([y, y + 1.0], {x: 5.0}) == [5.0, 6.0]


def test_what_waits_for_a_call_waits_for_what_it_does() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable("v", initializer=1.0, use_resource=True)

        def grow(handle: Any, by: Any) -> Any:
            write = tf.raw_ops.AssignAddVariableOp(resource=handle, value=by)
            return [by * 2.0], [write]

        made = function("grow", grow, tf.resource, tf.float32)
        result = call(made, v.handle, tf.constant(3.0))[0]
        with tf.control_dependencies([result.op]):
            after = v.read_value()
        sess.run(v.initializer)
        assert sess.run([after, result]) == [4.0, 6.0]
        sess.run(result.op)
        assert sess.run(v) == 7.0


def test_a_call_in_a_branch_that_is_not_taken_makes_nothing() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        p = tf.placeholder(tf.bool, [])
        off, on = v1.Switch(tf.constant(1.0), p)
        seven = function("seven", lambda a: ([tf.constant(7.0)], []), tf.float32)
        merged, _ = v1.Merge([call(seven, on)[0], off])
        assert [sess.run(merged, {p: value}) for value in (True, False)] == [7.0, 1.0]


def test_a_function_that_calls_itself_is_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        made = function("loop", lambda a: ([a * 1.0], []), tf.float32)
        with made.graph.as_default():
            made.outputs = [call(made, made.outputs[0])[0]]
        with pytest.raises(tf.errors.UnimplementedError, match="loop calls itself"):
            sess.run(call(made, tf.constant(1.0))[0])


def test_an_op_type_that_is_a_functions_name_is_a_call() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        y = call(function("twice", lambda a: ([a + a], []), tf.float32), x)[0]
        message = graph.as_graph_def()
    node = next(n for n in message.node if n.name == y.op.name)
    node.op = "twice"
    node.attr.clear()
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        (found,) = tf.import_graph_def(message, return_elements=[y.name], name="")
        np.testing.assert_array_equal(sess.run(found, {"x:0": [1.0, 2.0]}), [2.0, 4.0])
