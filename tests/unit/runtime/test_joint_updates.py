"""Updates of many small variables are made as one, and come to the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import host_run, joint_updates

OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
}
SHAPES: list[list[int]] = [[3, 2], [2], [], [1, 4, 1], [5]]


@pytest.fixture(autouse=True)
def on_tier_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_COMPILE", "never")
    monkeypatch.setattr(host_run, "RUNS_WITHOUT_TAPE", 0)


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each joint update, whether it was made as one."""
    made: list[bool] = []
    apply = joint_updates.JointUpdate.apply

    def noted(*args: Any) -> bool:
        made.append(apply(*args))
        return made[-1]

    monkeypatch.setattr(joint_updates.JointUpdate, "apply", noted)
    return made


def build(optimizer: Any, use_resource: bool) -> tuple[Any, Any, list[Any]]:
    x = tf.placeholder(tf.float32, [])
    variables = [
        tf.get_variable(
            f"v{i}",
            initializer=np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape),
            use_resource=use_resource,
        )
        for i, shape in enumerate(SHAPES)
    ]
    total = tf.add_n([tf.reduce_sum(tf.square(v)) for v in variables])
    return x, optimizer.minimize(x * total), variables


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_they_come_to_the_same_as_one_by_one(
    name: str, use_resource: bool, joined: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for least in (3, 10**6):
        monkeypatch.setattr(joint_updates, "_LEAST_MEMBERS", least)
        with tf.Graph().as_default():
            x, train, _ = build(OPTIMIZERS[name](), use_resource)
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                for turn in range(3):
                    sess.run(train, {x: 1.0 + turn})
                results.append(sess.run(tf.global_variables()))
    assert joined and all(joined)
    for one, other in zip(*results, strict=True):
        # NumPy's loops over four numbers at a time round otherwise than those over one.
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_reader_after_the_updates_sees_them(joined: list[bool]) -> None:
    x, train, variables = build(tf.train.GradientDescentOptimizer(0.5), False)
    with tf.control_dependencies([train]):
        after = tf.identity(variables[0] + 0.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        seen = sess.run(after, {x: 1.0})
        np.testing.assert_array_equal(seen, sess.run(variables[0]))
    assert joined == [True]


def test_nothing_is_written_if_the_step_fails(joined: list[bool]) -> None:
    x, train, variables = build(tf.train.GradientDescentOptimizer(0.5), False)
    bad = tf.reshape(tf.fill([tf.cast(x, tf.int32) + 2], x), [2, -1])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(variables)
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run([train, bad], {x: 1.0})
        for old, new in zip(before, sess.run(variables), strict=True):
            np.testing.assert_array_equal(old, new)


def test_the_failure_of_one_is_told_as_its_own(joined: list[bool]) -> None:
    grads = [tf.placeholder(tf.float32, None) for _ in range(4)]
    variables = [tf.Variable(tf.zeros([2]), name=f"w{i}") for i in range(4)]
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    pairs = [(g + 0.0, v) for g, v in zip(grads, variables, strict=True)]
    train = optimizer.apply_gradients(pairs)
    good = {g: np.ones(2) for g in grads}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"same shape[^$]*update_w2"):
            sess.run(train, {**good, grads[2]: np.ones(3)})
        sess.run(train, good)
        assert [v.tolist() for v in sess.run(variables)] == [[-0.5, -0.5]] * 4
    assert joined == [False, True]


def test_variables_without_a_value_are_told_by_name() -> None:
    x, train, variables = build(tf.train.GradientDescentOptimizer(0.5), False)
    with tf.Session() as sess:
        sess.run([v.initializer for v in variables[:-1]])
        with pytest.raises(tf.errors.FailedPreconditionError, match="v4"):
            sess.run(train, {x: 1.0})


def test_rows_that_are_read_again_after_joint_updates(joined: list[bool]) -> None:
    table = tf.get_variable("table", [4, 2], initializer=tf.ones_initializer(), use_resource=True)
    _, _, variables = build(tf.train.GradientDescentOptimizer(0.1), use_resource=True)
    rows = tf.nn.embedding_lookup(table, [1, 3])
    total = tf.add_n([tf.reduce_sum(tf.square(v)) for v in [rows, *variables]])
    train = tf.train.AdagradOptimizer(0.1).minimize(total)
    with tf.control_dependencies([train]):
        after = tf.identity(table.read_value())
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            seen = sess.run(after)
            np.testing.assert_array_equal(seen, sess.run(table))
    assert all(joined) and joined
    assert (seen[[0, 2]] == 1).all() and (seen[[1, 3]] < 1).all()
