"""Critical sections: one at a time, given back when a step fails, and misuse that is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import millrace as tf


def test_what_runs_in_a_section_is_never_interrupted_by_another_of_it() -> None:
    inside: list[int] = []
    worst: list[int] = []

    def enter(value: Any) -> Any:
        inside.append(1)
        worst.append(len(inside))
        inside.pop()
        return value

    section = tf.CriticalSection()
    x = tf.placeholder(tf.float32, [])
    outputs = [
        section.execute(lambda: tf.py_func(enter, [x], tf.float32, stateful=True)) for _ in range(4)
    ]
    with tf.Session() as sess:
        threads = [
            threading.Thread(target=lambda: sess.run(outputs, {x: 1.0}), daemon=True)
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert worst == [1] * 12


def test_a_step_that_fails_inside_gives_the_lock_back() -> None:
    section = tf.CriticalSection()
    bad = tf.placeholder(tf.bool, [])

    def body() -> Any:
        with tf.control_dependencies([tf.Assert(bad, ["no"])]):
            return tf.constant(1.0) + 0.0

    output = section.execute(body)
    with tf.Session() as sess:
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="no"):
                sess.run(output, {bad: False}, options=tf.RunOptions(timeout_in_ms=30_000))
        assert sess.run(output, {bad: True}, options=tf.RunOptions(timeout_in_ms=30_000)) == 1.0


def test_a_section_inside_itself_and_shared_resources_are_refused() -> None:
    first, second = tf.CriticalSection(), tf.CriticalSection()
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    with pytest.raises(ValueError, match="deadlock"):
        first.execute(lambda: first.execute(lambda: tf.constant(1.0)))
    first.execute(lambda: v.assign_add(1.0))
    with pytest.raises(ValueError, match="resources"):
        second.execute(lambda: v.assign_add(1.0))


def test_who_fetches_from_inside_of_a_section_gives_the_lock_back_too() -> None:
    section = tf.CriticalSection()
    inner: list[Any] = []

    def body() -> Any:
        inner.append(tf.constant(1.0) + 0.0)
        return inner[0]

    output = section.execute(body)
    options = tf.RunOptions(timeout_in_ms=30_000)
    with tf.Session() as sess:
        assert sess.run(inner[0], options=options) == 1.0
        assert sess.run(output, options=options) == 1.0
