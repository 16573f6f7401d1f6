"""What is computed twice, or for nobody, is left out; what draws, changes or checks stays."""

from __future__ import annotations

import numpy as np

import millrace as tf
from millrace.passes.node import Program
from millrace.passes.prune import prune
from millrace.passes.simplify import drop_unused, share_repeated


def types_of(program: Program) -> list[str]:
    return sorted(node.type for node in program.nodes if node.type not in ("Const", "NoOp"))


def test_the_same_of_the_same_is_computed_once() -> None:
    x = tf.placeholder(tf.int64, [None])
    pairs = [tf.unique(tf.reshape(x, [-1])) for _ in range(3)]
    total = tf.add_n([tf.size(p.y) for p in pairs] + [tf.size(p.idx) for p in pairs])
    found = share_repeated(prune([total], [], [x]))
    assert types_of(found) == ["AddN", "Reshape", "Size", "Size", "Unique"]
    (last,) = (node for node in found.nodes if node.type == "AddN")
    assert len(last.inputs) == 6


def test_other_attributes_inputs_or_constants_are_something_else() -> None:
    x, y = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [2, None])
    sums = [tf.reduce_sum(x, 0), tf.reduce_sum(x, 1), tf.reduce_sum(x, 1, keepdims=True)]
    products = [tf.matmul(x, y), tf.matmul(y, x), tf.matmul(x, y, transpose_b=True)]
    given = prune([*sums, *products], [], [x, y])
    assert types_of(share_repeated(given)) == types_of(given)


def test_numbers_at_random_are_drawn_each_by_itself() -> None:
    a, b = tf.random_uniform([2]), tf.random_uniform([2])
    given = prune([a + 1.0, b + 1.0], [], [])
    assert types_of(share_repeated(given)) == types_of(given)


def test_a_variable_is_read_where_it_is_used() -> None:
    v = tf.Variable([1.0, 2.0])
    before = v * 2.0
    with tf.control_dependencies([before]), tf.control_dependencies([v.assign([3.0, 4.0])]):
        after = v * 2.0
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert [value.tolist() for value in sess.run([before, after])] == [[2.0, 4.0], [6.0, 8.0]]


def test_what_is_only_waited_for_is_not_computed() -> None:
    # Neither does TensorFlow 1.15 or 2.21: its step does not fail here.
    x, y = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None, 3])
    v, w = tf.Variable(0.0), tf.Variable(0.0)
    with tf.control_dependencies([v.assign(5.0)]):
        bad = tf.matmul(x, y)
    with tf.control_dependencies([tf.exp(bad)]):
        late = w.assign(1.0)
    program = drop_unused(prune([], [late.op], [x, y]))
    assert types_of(program) == ["Assign", "Assign", "VariableV2", "VariableV2"]
    with tf.Session() as sess:
        sess.run([v.initializer, w.initializer])
        sess.run(late.op, {x: np.ones([1, 2]), y: np.ones([1, 3])})
        assert sess.run([v, w]) == [5.0, 1.0]


def test_what_is_asked_for_or_checks_something_stays() -> None:
    x = tf.placeholder(tf.float32, [None])
    wanted = tf.exp(x)
    with tf.control_dependencies([tf.check_numerics(tf.log(x), "bad"), tf.sin(x)]):
        last = tf.no_op()
    program = drop_unused(prune([], [wanted.op, last], [x]))
    assert types_of(program) == ["CheckNumerics", "Exp", "Log"]


def test_gradients_of_constants_are_not_computed() -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    w = tf.Variable(tf.ones([2, 2]))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(0.1 * tf.matmul(x, w)))
    program = prune([], [train], [x])
    before, after = types_of(program), types_of(drop_unused(program))
    assert before.count("MatMul") == 3  # One is the gradient of what is fed.
    assert after.count("MatMul") == 2
    assert len(after) < len(before)
