"""Iterators in sessions: errors, threads, sharing, what a closed session leaves behind."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import dataset_function


def pipeline_threads() -> list[threading.Thread]:
    kinds = ("prefetch", "map ", "iterator")
    return [t for t in threading.enumerate() if t.name.startswith(kinds)]


def wait_until(holds: Any) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_closed_session_leaves_no_thread() -> None:
    dataset = tf.data.Dataset.range(1000).map(lambda x: x + 1, num_parallel_calls=3).prefetch(2)
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as sess:
        assert sess.run(following) == 1
        assert pipeline_threads()
    wait_until(lambda: not pipeline_threads())


def test_an_element_made_for_a_step_that_timed_out_is_kept_for_the_next() -> None:
    gate = threading.Event()

    def slow(x: Any) -> Any:
        gate.wait(20)
        return x

    dataset = tf.data.Dataset.range(3).map(lambda x: tf.py_func(slow, [x], tf.int64))
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as sess:
        with pytest.raises(tf.errors.DeadlineExceededError, match="next element of iterator"):
            sess.run(following, options=tf.RunOptions(timeout_in_ms=50))
        gate.set()
        assert [sess.run(following) for _ in range(3)] == [0, 1, 2]


def test_two_sessions_have_iterators_of_their_own() -> None:
    following = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
    with tf.Session() as one, tf.Session() as two:
        assert [one.run(following), two.run(following), one.run(following)] == [0, 0, 1]


def test_an_error_names_the_op_of_the_map_function() -> None:
    words = tf.data.Dataset.from_tensor_slices(["no number"])
    dataset = words.map(lambda x: tf.string_to_number(x, name="to_number"))
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    with (
        tf.Session() as sess,
        pytest.raises(tf.errors.InvalidArgumentError, match="MapDataset/to_number"),
    ):
        sess.run(following)


def test_a_generators_own_traceback_is_in_the_error() -> None:
    def generate() -> Any:
        yield 1
        raise RuntimeError("the generator's own words")

    dataset = tf.data.Dataset.from_generator(generate, tf.int64, [])
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as sess:
        assert sess.run(following) == 1
        with pytest.raises(tf.errors.UnknownError, match="in generate") as caught:
            sess.run(following)
        assert "the generator's own words" in str(caught.value)


def test_a_generator_that_is_left_is_closed() -> None:
    closed = threading.Event()

    def generate() -> Any:
        try:
            yield from range(100)
        finally:
            closed.set()

    dataset = tf.data.Dataset.from_generator(generate, tf.int64, [])
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        sess.run(following)
    assert closed.wait(10)


def test_a_graph_survives_its_graph_def() -> None:
    table = tf.constant([10, 20, 30], tf.int64)
    dataset = tf.data.Dataset.range(3).map(lambda i: table[i]).batch(2)
    iterator = tf.data.make_initializable_iterator(dataset)
    iterator.get_next(name="following")
    message = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(message, name="")
        with tf.Session() as sess:
            sess.run(graph.get_operation_by_name("MakeIterator"))
            following = graph.get_tensor_by_name("following:0")
            assert sess.run(following).tolist() == [10, 20]
            assert sess.run(following).tolist() == [30]


def test_a_training_step_takes_its_batch_from_the_iterator() -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    dataset = tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).shuffle(64).repeat().batch(16)
    inputs, labels = tf.data.make_one_shot_iterator(dataset.prefetch(2)).get_next()
    w, b = tf.Variable([[0.0]]), tf.Variable([0.0])
    loss = tf.reduce_mean(tf.square(tf.matmul(inputs, w) + b - labels))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(200):
            sess.run(train)
        assert np.allclose(sess.run([w[0, 0], b[0]]), [3, 1], atol=0.05)


def test_reading_many_examples_leaves_memory_flat() -> None:
    dataset = tf.data.Dataset.range(10**9).map(lambda x: x + 1).batch(500).prefetch(2)
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as sess:
        for _ in range(5):
            sess.run(following)
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(40):
            sess.run(following)
        gc.collect()
        assert len(gc.get_objects()) - before < 2000


def test_the_lazy_names_of_tf_data_are_those_of_its_module() -> None:
    import millrace.data.datasets as public

    assert set(public.__all__) <= set(dir(tf.data))
    assert tf.compat.v1.data.Dataset is tf.data.Dataset
    with pytest.raises(AttributeError):
        tf.data.NoSuchName  # noqa: B018


def test_a_map_function_that_crops_and_flips_at_random_runs_without_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan for each element would cost more than the element; the numbers drawn are the same."""

    def run() -> list[list[int]]:
        with tf.Graph().as_default():
            tf.set_random_seed(3)

            def changed(i: tf.Tensor) -> tf.Tensor:
                row = tf.random_crop(tf.reshape(tf.range(i, i + 12), [6, 2]), [3, 2], seed=4)
                return tf.cond(tf.random_uniform([], seed=5) < 0.5, lambda: row, lambda: row[::-1])

            dataset = tf.data.Dataset.range(6).map(changed)
            element = tf.data.make_one_shot_iterator(dataset).get_next()
            with tf.Session() as sess:
                return [sess.run(element).ravel().tolist() for _ in range(6)]

    planned: list[str] = []
    found = run()
    monkeypatch.setattr(
        dataset_function.FunctionTape,
        "of",
        lambda program, *_: planned.append(program.nodes[0].name),
    )
    assert run() == found
    assert planned
