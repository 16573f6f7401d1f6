"""DropoutWrapper: what is dropped, when the choice is made, which parts of states are spared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.ops.nn.rnn_cells import LSTMStateTuple, RNNCell


class Passing(RNNCell):
    """Hands its input on, and adds it up in its state."""

    state_size = 50
    output_size = 50

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        return inputs, state + inputs


class Remembering(RNNCell):
    """An LSTM's state, all ones."""

    state_size = LSTMStateTuple(50, 50)
    output_size = 50

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        return inputs, LSTMStateTuple(tf.ones_like(state.c), tf.ones_like(state.h))


def outputs(cell: Any, steps: int = 3) -> Any:
    found, _ = tf.nn.dynamic_rnn(cell, tf.ones([2, steps, 50]), dtype=tf.float32)
    with tf.Session() as sess:
        return sess.run(found), sess.run(found)


@pytest.mark.parametrize("where", ["input", "output"])
def test_variational_dropout_drops_the_same_parts_at_all_times(where: str) -> None:
    cell = tf.nn.rnn_cell.DropoutWrapper(
        Passing(),
        variational_recurrent=True,
        dtype=tf.float32,
        input_size=50,
        **{f"{where}_keep_prob": 0.5},
    )
    first, second = outputs(cell)
    assert set(np.unique(first)) == {0.0, 2.0}
    assert (first == first[:1, :1]).all(), "one choice for all times and the whole batch"
    assert (first != second).any(), "and another one in the next step"


def test_ordinary_dropout_chooses_again_each_time() -> None:
    first, _ = outputs(tf.nn.rnn_cell.DropoutWrapper(Passing(), output_keep_prob=0.5))
    assert (first[:, 0] != first[:, 1]).any()


def test_a_seed_makes_the_choice_repeat_in_another_session() -> None:
    def draw() -> Any:
        with tf.Graph().as_default():
            tf.set_random_seed(3)
            cell = tf.nn.rnn_cell.DropoutWrapper(
                Passing(),
                input_keep_prob=0.5,
                variational_recurrent=True,
                input_size=50,
                dtype=tf.float32,
                seed=7,
            )
            return outputs(cell)[0]

    np.testing.assert_array_equal(draw(), draw())


@pytest.mark.parametrize("variational", [False, True])
def test_the_memory_of_an_lstm_is_spared_unless_a_visitor_says_otherwise(variational: bool) -> None:
    options: dict[str, Any] = {"state_keep_prob": 0.5}
    if variational:
        options.update(variational_recurrent=True, dtype=tf.float32)
    wrap = tf.nn.rnn_cell.DropoutWrapper
    cells = [
        wrap(Remembering(), **options),
        wrap(Remembering(), dropout_state_filter_visitor=lambda part: True, **options),
    ]
    states = [
        cell(tf.ones([2, 50]), LSTMStateTuple(tf.zeros([2, 50]), tf.zeros([2, 50])))[1]
        for cell in cells
    ]
    with tf.Session() as sess:
        spared, dropped = sess.run(states)
    assert (spared.c == 1).all()
    assert (spared.h == 0).any()
    assert (dropped.c == 0).any()


def test_what_is_missing_or_out_of_range_is_said() -> None:
    wrap = tf.nn.rnn_cell.DropoutWrapper
    with pytest.raises(ValueError, match="dtype must be provided"):
        wrap(Passing(), variational_recurrent=True)
    with pytest.raises(ValueError, match="input_size must be provided"):
        wrap(Passing(), input_keep_prob=0.5, variational_recurrent=True, dtype=tf.float32)
    with pytest.raises(ValueError, match="output_keep_prob must be between 0 and 1"):
        wrap(Passing(), output_keep_prob=1.5)
