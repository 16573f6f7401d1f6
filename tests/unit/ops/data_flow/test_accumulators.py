"""Accumulators in sessions. Which gradients count is tested with `protocol.accumulator`."""

import numpy as np
import pytest

import millrace as tf
from millrace.ops.data_flow.accumulators import Accumulator


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


def takes_waiting(session):
    accumulators = session._backend.state.resources.all_of(Accumulator)
    return sum(len(accumulator.state._takes) for _, _, accumulator in accumulators)


def test_a_take_waits_for_the_gradients_of_all_workers(session, background, until):
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[2])
    gradient = tf.placeholder(tf.float32, [2])
    apply, take = accumulator.apply_grad(gradient), accumulator.take_grad(3)
    call = background(lambda: session.run(take))
    until(lambda: takes_waiting(session) == 1)
    for value in (1.0, 2.0, 6.0):
        session.run(apply, {gradient: [value, -value]})
    assert call.result().tolist() == [3, -3]
    assert session.run(accumulator.num_accumulated()) == 0


def test_a_gradient_of_an_earlier_step_is_dropped(session):
    accumulator = tf.ConditionalAccumulator(tf.float32)
    step = tf.placeholder(tf.int64, [])
    apply = accumulator.apply_grad(tf.constant(4.0), local_step=step)
    session.run(accumulator.set_global_step(5))
    session.run(apply, {step: 4})
    assert session.run(accumulator.num_accumulated()) == 0
    session.run(apply, {step: 5})
    assert session.run(accumulator.take_grad(1)) == 4
    session.run(apply, {step: 5})  # taking has moved the step to 6
    assert session.run(accumulator.num_accumulated()) == 0


def test_a_gradient_does_not_follow_what_was_fed(session):
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[1])
    fed = np.array([1.0], np.float32)
    gradient = tf.placeholder(tf.float32, [1])
    session.run(accumulator.apply_grad(gradient), {gradient: fed})
    fed[:] = 9
    assert session.run(accumulator.take_grad(1)).tolist() == [1]


def test_closing_the_session_ends_a_waiting_take(graph, background, until):
    take = tf.ConditionalAccumulator(tf.float32).take_grad(1)
    session = tf.Session(graph=graph)
    call = background(lambda: session.run(take))
    until(lambda: takes_waiting(session) == 1)
    session.close()
    with pytest.raises(tf.errors.CancelledError):
        call.result()


def test_sparse_gradients_are_rows_of_the_whole(session):
    accumulator = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 1], reduction_type="SUM")
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([3, 0]), tf.constant([4, 1]))
    apply = accumulator.apply_indexed_slices_grad(slices)
    session.run(apply)
    session.run(apply)
    taken = session.run(accumulator.take_indexed_slices_grad(2))
    assert taken.indices.tolist() == [0, 3]
    assert taken.values.tolist() == [[4], [2]]
    assert taken.dense_shape.tolist() == [4, 1]


@pytest.mark.parametrize("dtype", [tf.float16, tf.float64, tf.bfloat16, tf.int32])
def test_the_type_is_kept(session, dtype):
    accumulator = tf.ConditionalAccumulator(dtype, shape=[2])
    for values in ([1, 2], [3, 4]):
        session.run(accumulator.apply_grad(tf.cast(values, dtype)))
    taken = session.run(accumulator.take_grad(2))
    assert taken.dtype == dtype.as_numpy_dtype
    assert taken.astype(np.float32).tolist() == [2, 3]


@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one_gradient_must_be_taken(session, count):
    take = tf.ConditionalAccumulator(tf.float32).take_grad(count)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=f"Argument num_required must be positive, but was {count}",
    ):
        session.run(take)


def test_those_who_share_an_accumulator_must_agree_on_its_type(session):
    one = tf.ConditionalAccumulator(tf.float32, shared_name="a")
    session.run(one.num_accumulated())
    same = tf.ConditionalAccumulator(tf.float32, shared_name="a")
    session.run(same.apply_grad(1.0))
    assert session.run(one.num_accumulated()) == 1
    other = tf.ConditionalAccumulator(tf.float64, shared_name="a")
    with pytest.raises(tf.errors.InvalidArgumentError, match="is of type float"):
        session.run(other.num_accumulated())


def test_what_cannot_fit_is_refused_while_the_graph_is_built():
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[2])
    with pytest.raises(ValueError, match="incompatible"):
        accumulator.apply_grad([1.0])
    with pytest.raises(ValueError, match="MAX"):
        tf.ConditionalAccumulator(tf.float32, reduction_type="MAX")
    with pytest.raises(TypeError, match="string"):
        tf.ConditionalAccumulator(tf.string)
    assert accumulator.take_grad(1).shape.as_list() == [2]


def test_old_references_to_accumulators_work(session):
    raw = tf.raw_ops
    handle = raw.ConditionalAccumulator(dtype=tf.float32, shape=[2])
    session.run(
        raw.AccumulatorApplyGradient(
            handle=handle, local_step=tf.constant(0, tf.int64), gradient=[1.0, 2.0]
        )
    )
    assert session.run(raw.AccumulatorNumAccumulated(handle=handle)) == 1
    taken = raw.AccumulatorTakeGradient(handle=handle, num_required=1, dtype=tf.float32)
    assert session.run(taken).tolist() == [1, 2]
