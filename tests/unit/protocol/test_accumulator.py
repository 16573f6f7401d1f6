"""Which gradients count, and who gets their mean. The texts of errors are TensorFlow 2.21's."""

import numpy as np
import pytest

from millrace.core import errors
from millrace.core.tensor_shape import TensorShape
from millrace.protocol.accumulator import DenseAccumulatorState, SparseAccumulatorState, Take


def dense(shape=(2,), mean=True):
    return DenseAccumulatorState("acc", TensorShape(shape), mean)


def sparse(shape=(4, 2), mean=True):
    return SparseAccumulatorState("acc", TensorShape(shape), mean)


def array(*values):
    return np.array(values, np.float32)


def rows(indices, *values, shape=None):
    return np.array(indices, np.int64), np.array(values, np.float32), shape


def take(state, required=1):
    attempt = Take(required)
    state.submit(attempt)
    return attempt


def test_the_mean_of_all_gradients_is_taken_and_the_step_moves_on():
    state = dense()
    state.apply(array(1, 2), 0)
    state.apply(array(3, 6), 0)
    assert state.count == 2
    assert take(state).result().tolist() == [2, 4]
    assert (state.count, state.global_step) == (0, 1)


def test_a_sum_is_taken_where_that_is_asked_for():
    state = dense(mean=False)
    state.apply(array(1, 2), 0)
    state.apply(array(3, 6), 0)
    assert take(state, 2).result().tolist() == [4, 8]


def test_a_take_waits_for_enough_gradients():
    state = dense()
    waiting = take(state, 2)
    assert state.apply(array(1, 1), 0) == []
    assert state.apply(array(3, 3), 0) == [waiting]
    assert waiting.result().tolist() == [2, 2]


def test_takes_are_served_in_order_each_with_gradients_of_its_own():
    state = dense()
    first, second = take(state, 1), take(state, 1)
    state.apply(array(1, 1), 0)
    assert first.done and not second.done
    assert state.apply(array(9, 9), 0) == []  # stale: the first take moved the step
    state.apply(array(5, 5), 1)
    assert second.result().tolist() == [5, 5]


def test_stale_gradients_are_dropped_even_if_they_do_not_fit():
    state = dense()
    state.global_step = 3
    assert state.apply(array(1, 2, 3), 2) == []
    assert state.count == 0


def test_the_first_gradient_is_not_changed_by_those_that_follow():
    state = dense(mean=False)
    first, second = array(1, 2), array(10, 20)
    state.apply(first, 0)
    state.apply(second, 0)
    state.apply(array(100, 200), 0)
    assert take(state).result().tolist() == [111, 222]
    assert first.tolist() == [1, 2] and second.tolist() == [10, 20]


def test_gradients_must_have_the_stated_shape_and_that_of_the_others():
    with pytest.raises(ValueError, match=r"^Shape mismatch: expected \[2\], got \[1\]$"):
        dense().apply(array(1), 0)
    state = dense(shape=None)
    state.apply(array(1, 2), 0)
    with pytest.raises(ValueError, match=r"^Shape mismatch: expected \[2\], got \[3\]$"):
        state.apply(array(1, 2, 3), 0)
    assert state.count == 1
    take(state)
    state.apply(array(1, 2, 3), 1)  # the next round may have another shape
    assert take(state).result().tolist() == [1, 2, 3]


def test_a_mean_keeps_the_type():
    state = DenseAccumulatorState("acc", TensorShape(None), True)
    for value in (1, 2):
        state.apply(np.array(value, np.float16), 0)
    result = take(state).result()
    assert result.dtype == np.float16 and result == 1.5


def test_cancelling_a_take_lets_the_next_have_the_gradients():
    state = dense()
    first, second = take(state, 3), take(state, 1)
    state.apply(array(1, 1), 0)
    assert state.cancel(first) == [first, second]
    with pytest.raises(errors.CancelledError, match="TakeGrad operation was cancelled"):
        first.result()
    assert second.result().tolist() == [1, 1]
    assert state.cancel(first) == []


def test_an_accumulator_that_goes_away_fails_its_takes():
    state = dense()
    waiting = take(state)
    assert state.abandon() == [waiting]
    with pytest.raises(errors.CancelledError, match="'acc' was removed"):
        waiting.result()


def test_a_sparse_mean_is_over_the_gradients_that_have_the_row():
    state = sparse()
    state.apply(rows([0, 2], [1, 1], [2, 2]), 0)
    state.apply(rows([2, 3], [3, 3], [4, 4]), 0)
    indices, values, shape = take(state).result()
    assert indices.tolist() == [0, 2, 3]
    assert values.tolist() == [[1, 1], [2.5, 2.5], [4, 4]]
    assert shape.tolist() == [4, 2]


def test_a_sparse_sum_adds_rows_wherever_they_are():
    state = sparse(shape=None, mean=False)
    state.apply(rows([3, 0, 3], [1, 1], [2, 2], [4, 4]), 0)
    state.apply(rows([0], [8, 8]), 0)
    indices, values, shape = take(state).result()
    assert indices.tolist() == [0, 3]
    assert values.tolist() == [[10, 10], [5, 5]]
    assert shape.tolist() == [-1, 2]


def test_a_single_sparse_gradient_comes_out_as_it_went_in():
    state = sparse()
    state.apply(rows([2, 0, 2], [3, 3], [4, 4], [5, 5]), 0)
    indices, values, _ = take(state).result()
    assert indices.tolist() == [2, 0, 2]
    assert values.tolist() == [[3, 3], [4, 4], [5, 5]]


def test_a_gradient_without_rows_counts():
    state = sparse()
    state.apply((np.zeros(0, np.int64), np.zeros((0, 2), np.float32), None), 0)
    state.apply(rows([1], [2, 4]), 0)
    indices, values, _ = take(state, 2).result()
    assert indices.tolist() == [1] and values.tolist() == [[2, 4]]


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (rows([[1]], [1, 1]), r"Input indices should be vector but received shape: \[1,1\]"),
        ((np.array([1]), np.array(1.0), None), "Values cannot be 0-dimensional."),
        (rows([2], [3, 3], [4, 4]), "Expected 1 non-empty input values, got 2"),
        (rows([2], 3), "Shape mismatch: expected values rank at least 2, got 1"),
        (rows([2], [3]), "Shape mismatch: expected values dim 1 to be 2, got 1"),
        (
            rows([7], [3, 3]),
            "Shape mismatch: index of slice 0 exceeded limits of shape; index is 7 exceeded 4",
        ),
        (
            rows([1], [3, 3], shape=np.array([5, 2])),
            "Shape mismatch: expected shape dim 0 to be 4, got 5",
        ),
        (
            rows([1], [3, 3], shape=np.array([4])),
            "Shape mismatch: expected shape rank at least 2, got 1",
        ),
    ],
)
def test_a_sparse_gradient_that_does_not_fit_is_refused(gradient, message):
    state = sparse()
    with pytest.raises(ValueError, match=message):
        state.apply(gradient, 0)
    assert state.count == 0


def test_rows_must_be_as_wide_as_those_already_there():
    state = sparse(shape=None)
    state.apply(rows([5], [3, 3]), 0)
    with pytest.raises(ValueError, match="expected values dim 1 to be 2, got 3"):
        state.apply(rows([5], [3, 3, 3]), 0)


@pytest.mark.parametrize("kind", [DenseAccumulatorState, SparseAccumulatorState])
def test_setting_the_step_back_drops_what_was_accumulated(kind):
    state = kind("a", TensorShape(None), True)
    gradient = np.ones(2) if kind is DenseAccumulatorState else (np.array([0]), np.ones([1]), None)
    state.set_global_step(7)
    state.apply(gradient, 7)
    state.set_global_step(7)
    assert state.count == 1
    state.set_global_step(3)  # The model was restored.
    assert (state.count, state.global_step) == (0, 3)
    take = Take(1)
    state.submit(take)
    assert not take.done
    assert state.apply(gradient, 3) == [take]


# -- Who contributes ---------------------------------------------------------------------------


def test_a_contributor_that_begins_again_repeats_what_is_here_and_nothing_else():
    here, elsewhere = dense([]), dense([])
    # A step reached one accumulator, and not the other.
    here.apply(np.array(1.0), 0, "w1")
    assert here.begins_again("w1")
    assert not elsewhere.begins_again("w1")
    for accumulator in (here, elsewhere):
        accumulator.apply(np.array(1.0), 0, "w1")
        accumulator.apply(np.array(3.0), 0, "w2")
        assert accumulator.contributors == {"w1": 1, "w2": 1}
        take = Take(2)
        assert accumulator.submit(take) == [take]
        np.testing.assert_array_equal(take.result(), 2.0)


def test_a_repeat_is_dropped_once_and_not_in_the_next_round():
    accumulator = dense([])
    accumulator.apply(np.array(1.0), 0, "w1")
    accumulator.begins_again("w1")
    accumulator.apply(np.array(1.0), 0, "w1")
    accumulator.apply(np.array(5.0), 0, "w1")
    assert accumulator.count == 2
    accumulator.begins_again("w1")
    accumulator.submit(Take(1))
    accumulator.apply(np.array(5.0), 1, "w1")
    assert accumulator.count == 1


def test_gradients_that_do_not_say_whose_they_are_all_count():
    accumulator = dense([])
    accumulator.apply(np.array(1.0), 0)
    assert not accumulator.begins_again("")
    accumulator.apply(np.array(1.0), 0)
    assert accumulator.count == 2


def test_a_round_that_begins_has_nothing_of_the_one_before_whatever_its_step():
    accumulator = dense([])
    for step in (0, 3, 1):
        accumulator.apply(np.array(1.0), 7, "w1")
        accumulator.begins_again("w1")
        accumulator.begin_round(step)
        assert (accumulator.count, accumulator.global_step) == (0, step)
        assert not accumulator.begins_again("w1")


def test_a_take_says_whose_gradient_is_missing():
    accumulator = dense([])
    for contributor in ("w1", "w2"):
        accumulator.apply(np.array(1.0), 0, contributor)
    accumulator.submit(Take(2))
    accumulator.apply(np.array(1.0), 1, "w1")
    words = accumulator.describe(2)
    assert words.startswith(
        "2 gradients in accumulator 'acc', which has 1 of step 1: none from w2."
    )


def test_gradients_are_summed_in_memory_that_nobody_else_has_and_in_no_other():
    state = dense()
    theirs, own = array(1, 2), array(3, 6)
    state.apply(theirs, 0)
    state.apply(own, 0, is_own=True)
    other = array(5, 1)
    state.apply(other, 0)
    taken = take(state, 3).result()
    assert taken is own and taken.tolist() == [3, 3]
    assert theirs.tolist() == [1, 2] and other.tolist() == [5, 1]


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.complex64, np.float16])
def test_the_mean_in_place_is_the_mean(kind):
    means = []
    for is_own in (True, False):
        state = DenseAccumulatorState("acc", TensorShape([3]), True)
        for values in ([7, -7, 2], [2, 2, 2], [1, 1, 1]):
            state.apply(np.array(values, kind), 0, is_own=is_own)
        means.append(take(state, 3).result())
    assert means[0].dtype == means[1].dtype == kind
    assert means[0].tolist() == means[1].tolist()
