"""A loop on the host: one function of condition and body, that does what its nodes do in turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import body_tape, host_run
from millrace.runtime.loop_tape import LoopTape
from millrace.runtime.tape import Tape


@pytest.fixture(autouse=True)
def loops(monkeypatch: pytest.MonkeyPatch) -> list[LoopTape]:
    """The loops that a test's steps run, from their first run on."""
    monkeypatch.setenv("MILLRACE_COMPILE", "never")
    monkeypatch.setattr(host_run, "RUNS_WITHOUT_TAPE", 0)
    made: list[LoopTape] = []

    class Noted(LoopTape):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(body_tape, "LoopTape", Noted)
    return made


def _lines(loop: LoopTape, depth: int) -> list[str]:
    """The lines of a loop that are indented so far: 2 before, 3 in each iteration."""
    spaces = " " * depth
    return [
        line.strip()
        for line in loop.source.splitlines()
        if line.startswith(spaces) and not line.startswith(spaces + " ")
    ]


def test_what_no_iteration_changes_is_computed_once(loops: list[LoopTape]) -> None:
    x = tf.placeholder(tf.float32, [None])
    count = tf.placeholder(tf.int32, [])
    _, total = tf.while_loop(
        lambda i, _: i < count,
        lambda i, t: (i + 1, t + tf.exp(tf.cast(tf.size(x), tf.float32)) * x),
        [0, tf.zeros_like(x)],
    )
    with tf.Session() as sess:
        for n in (0, 1, 3):
            found = sess.run(total, {x: [1.0, 2.0], count: n})
            np.testing.assert_allclose(found, n * np.exp(2.0) * np.array([1.0, 2.0]), rtol=1e-6)
    (loop,) = loops
    assert sum(" = k" in line for line in _lines(loop, 2)) == 4  # size, cast, exp, product
    assert sum(" = k" in line for line in _lines(loop, 3)) == 3  # two sums, and the condition


def test_a_loop_without_iterations_computes_nothing_of_its_body() -> None:
    x = tf.placeholder(tf.float32, [None])
    count = tf.placeholder(tf.int32, [])
    _, shaped = tf.while_loop(
        lambda i, _: i < count,
        lambda i, t: (i + 1, t + tf.reduce_sum(tf.reshape(x, [2, -1], name="halves"))),
        [0, 0.0],
    )
    with tf.Session() as sess:
        assert sess.run(shaped, {x: [1.0, 2.0, 3.0], count: 0}) == 0.0
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"node halves|while/halves"):
            sess.run(shaped, {x: [1.0, 2.0, 3.0], count: 1})


def test_variables_may_change_places() -> None:
    _, a, b, c = tf.while_loop(
        lambda i, *_: i < 4, lambda i, a, b, c: (i + 1, b, a, a), [0, 1.0, 2.0, 3.0]
    )
    with tf.Session() as sess:
        assert sess.run([a, b, c]) == [1.0, 2.0, 2.0]


def test_an_array_that_only_the_loop_writes_is_changed_in_place(loops: list[LoopTape]) -> None:
    count = tf.placeholder(tf.int32, [])
    array = tf.TensorArray(tf.float32, count, element_shape=[])
    _, array = tf.while_loop(
        lambda i, _: i < count, lambda i, a: (i + 1, a.write(i, tf.cast(i, tf.float32))), [0, array]
    )
    with tf.Session() as sess:
        for n in (3, 1, 5):
            assert sess.run(array.stack(), {count: n}).tolist() == list(range(n))
    assert ".put(" in loops[0].source


def test_an_array_whose_old_value_is_read_after_a_write_is_not() -> None:
    """The read sees the array as it was, whatever runs first."""
    array = tf.TensorArray(tf.float32, 4, clear_after_read=False, element_shape=[]).unstack(
        [1.0, 0.0, 0.0, 0.0]
    )
    rest = tf.TensorArray(tf.float32, 4, element_shape=[])

    def body(i: Any, old: Any, new: Any) -> Any:
        written = new.write(i, 5.0)
        with tf.control_dependencies([written.flow]):
            before = old.read(0) + tf.cast(new.size(), tf.float32)
        return i + 1, old, written.identity().write(i + 1, before)

    *_, rest = tf.while_loop(lambda i, *_: i < 1, body, [0, array, rest])
    with tf.Session() as sess:
        assert sess.run(rest.stack()).tolist() == [5.0, 5.0, 0.0, 0.0]


def test_the_array_around_a_loop_stays_as_it_was() -> None:
    array = tf.TensorArray(tf.float32, 2, element_shape=[], clear_after_read=False).write(0, 1.0)
    _, after = tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, a.write(i, 7.0)), [1, array])
    with tf.Session() as sess:
        found = sess.run([array.stack(), after.stack()])
    assert [f.tolist() for f in found] == [[1.0, 0.0], [1.0, 7.0]]


def test_a_second_write_to_an_element_is_refused() -> None:
    array = tf.TensorArray(tf.float32, 2, element_shape=[])
    _, array = tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, a.write(0, 1.0)), [0, array])
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="already been"):
        sess.run(array.stack())


def test_what_follows_a_loop_is_called_directly() -> None:
    """Only arrays and lists of tensors that come out of a loop are asked what they are."""
    tapes = []
    make = host_run.Tape

    class Noted(make):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            tapes.append(self)

    x = tf.placeholder(tf.float32, [None])
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * 2.0), [0, x])
    y = tf.cond(tf.reduce_sum(y) > 0.0, lambda: y + 1.0, lambda: y - 1.0)
    result = tf.exp(y) * 2.0
    with pytest.MonkeyPatch.context() as patch, tf.Session() as sess:
        patch.setattr(host_run, "Tape", Noted)
        np.testing.assert_allclose(sess.run(result, {x: [0.125]}), 2 * np.exp([2.0]), rtol=1e-6)
    assert not any(" call(" in line for tape in tapes for line in tape.source.splitlines())


def test_what_follows_a_loop_that_reads_a_variable_is_called_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tapes: list[str] = []
    make = Tape._make

    def noted(tape: Tape, *args: Any) -> None:
        make(tape, *args)
        tapes.append(tape.source)

    monkeypatch.setattr(Tape, "_make", noted)
    x = tf.placeholder(tf.float32, [2, 2])
    w = tf.get_variable("w", [2, 2], initializer=tf.ones_initializer())
    _, last = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tf.matmul(h, w)), [0, x])
    loss = tf.reduce_sum(tf.square(last))
    (gradient,) = tf.gradients(loss, [w])
    with tf.Session() as sess:
        sess.run(w.initializer)
        tapes.clear()
        found = sess.run([loss, gradient], {x: np.eye(2)})
    assert found[0] == 64.0
    np.testing.assert_array_equal(found[1], np.full([2, 2], 96.0))
    assert any("run_loop(" in source for source in tapes)
    assert not any(" call(" in source for source in tapes)


def test_random_numbers_differ_between_iterations_and_repeat_with_the_seed() -> None:
    def drawn() -> list[float]:
        with tf.Graph().as_default():
            tf.set_random_seed(3)
            _, array = tf.while_loop(
                lambda i, _: i < 4,
                lambda i, a: (i + 1, a.write(i, tf.random_uniform([], seed=5))),
                [0, tf.TensorArray(tf.float32, 4, element_shape=[])],
            )
            with tf.Session() as sess:
                return list(sess.run(array.stack()).tolist())

    first = drawn()
    assert len(set(first)) == 4
    assert drawn() == first


@pytest.mark.parametrize("mode", ["now", "never"])
def test_a_loop_whose_length_only_the_run_shows_is_one_function_too(
    mode: str, monkeypatch: pytest.MonkeyPatch, loops: list[LoopTape]
) -> None:
    """Its gradient keeps values, so that no program of a fixed size holds it."""
    monkeypatch.setenv("MILLRACE_COMPILE", mode)
    x = tf.placeholder(tf.float32, [None])
    y = tf.while_loop(lambda v: tf.reduce_sum(v) < 100.0, lambda v: v * v, [x])
    gradient = tf.gradients(y, x)[0]
    with tf.Session() as sess:
        for value, power in ((2.0, 8), (3.0, 8), (11.0, 2)):
            found = sess.run([y, gradient], {x: [value]})
            expected = [value**power], [power * value ** (power - 1)]
            np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5)
    assert len(loops) == 2


def test_a_deadline_ends_a_loop_whose_length_only_the_run_shows() -> None:
    x = tf.placeholder(tf.float32, [None])
    y = tf.while_loop(lambda v: tf.reduce_sum(v) < 100.0, lambda v: v * 1.0, [x])
    gradient = tf.gradients(y, x)[0]
    options = tf.RunOptions(timeout_in_ms=200)
    with tf.Session() as sess, pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(gradient, {x: [1.0]}, options=options)
