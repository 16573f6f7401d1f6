"""Gradients of concatenations of unknown shapes are cut out of the whole, part by part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import host_run
from millrace.runtime.concat_cuts import cut
from millrace.runtime.tape import Tape


@pytest.fixture(autouse=True)
def tapes(monkeypatch: pytest.MonkeyPatch) -> list[Tape]:
    monkeypatch.setenv("MILLRACE_COMPILE", "never")
    monkeypatch.setattr(host_run, "RUNS_WITHOUT_TAPE", 0)
    made: list[Tape] = []

    class Noted(Tape):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(host_run, "Tape", Noted)
    return made


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_each_part_gets_its_own_gradient(axis: int, tapes: list[Tape]) -> None:
    shapes = [[2, 3, 4] for _ in range(3)]
    for i, shape in enumerate(shapes):
        shape[axis] += i
    xs = [tf.placeholder(tf.float32, [None, None, None]) for _ in shapes]
    whole = tf.concat(xs, axis)
    weights = tf.placeholder(tf.float32, [None, None, None])
    grads = tf.gradients(tf.reduce_sum(whole * weights), xs)
    values = [np.zeros(shape, np.float32) for shape in shapes]
    given = np.arange(np.concatenate(values, axis).size, dtype=np.float32)
    given = given.reshape(np.concatenate(values, axis).shape)
    with tf.Session() as sess:
        found = sess.run(grads, {weights: given, **dict(zip(xs, values, strict=True))})
    np.testing.assert_array_equal(np.concatenate(found, axis), given)
    assert [part.shape for part in found] == [tuple(shape) for shape in shapes]
    assert sum(" = cut(" in line for line in tapes[-1].source.splitlines()) == 3


def test_offsets_that_others_use_are_computed() -> None:
    x, y = tf.placeholder(tf.int32, [2]), tf.placeholder(tf.int32, [2])
    whole = tf.placeholder(tf.float32, [None, None])
    offsets = tf.raw_ops.ConcatOffset(concat_dim=1, shape=[x, y])
    part = tf.slice(whole, offsets[1], y)
    with tf.Session() as sess:
        feed = {x: [2, 1], y: [2, 2], whole: np.arange(6.0).reshape(2, 3)}
        found = sess.run([part, offsets[1]], feed)
    assert found[0].tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert found[1].tolist() == [0, 1]


def test_a_part_that_is_not_inside_is_refused() -> None:
    with pytest.raises(ValueError, match=r"was to begin at 2 along axis 0"):
        cut(np.zeros((3, 2)), 0, np.array([2, 2]), np.array([2, 2]))
