"""Input pipelines on queues."""

import contextlib

import numpy as np
import pytest

import millrace as tf


@contextlib.contextmanager
def running():
    """A session whose queue runners run."""
    coordinator = tf.train.Coordinator()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            yield session
        finally:
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=20)


def all_of(session, fetches):
    found = []
    with contextlib.suppress(tf.errors.OutOfRangeError):
        while True:
            found.append(session.run(fetches))
    return found


def numbers(limit):
    return tf.train.range_input_producer(limit, num_epochs=1, shuffle=False).dequeue()


# -- Producers ---------------------------------------------------------------------------


def test_epochs_are_counted():
    name = tf.train.string_input_producer(["a", "b"], num_epochs=2, shuffle=False).dequeue()
    with running() as session:
        assert all_of(session, name) == [b"a", b"b", b"a", b"b"]


def test_every_epoch_is_shuffled_again_and_a_seed_repeats_the_order():
    def epochs(seed):
        with tf.Graph().as_default():
            producer = tf.train.input_producer(
                np.arange(20), shuffle=True, seed=seed, num_epochs=2, capacity=100
            )
            with running() as session:
                found = all_of(session, producer.dequeue())
        return [int(n) for n in found[:20]], [int(n) for n in found[20:]]

    first, second = epochs(1)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert (first, second) == epochs(1)


def test_without_a_number_of_epochs_the_input_never_ends():
    number = tf.train.range_input_producer(2, shuffle=False, capacity=3).dequeue()
    with running() as session:
        assert [session.run(number) for _ in range(7)] == [0, 1, 0, 1, 0, 1, 0]


def test_slices_of_several_tensors_belong_together():
    word, number = tf.train.slice_input_producer([["x", "y", "z"], [1, 2, 3]], num_epochs=1, seed=3)
    with running() as session:
        assert sorted(all_of(session, [word, number])) == [[b"x", 1], [b"y", 2], [b"z", 3]]


def test_an_evaluation_more_than_the_limit_is_out_of_range():
    limited = tf.train.limit_epochs(tf.constant([1, 2]), num_epochs=2)
    with running() as session:
        assert len(all_of(session, limited)) == 2
    assert tf.train.limit_epochs(limited) is limited


def test_files_are_matched_once(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("")
    found = tf.train.match_filenames_once(f"{tmp_path}/*.txt")
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        (tmp_path / "c.txt").write_text("")
        assert [n.rpartition(b"/")[2] for n in session.run(found)] == [b"a.txt", b"b.txt"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tf.train.string_input_producer([]), "requires a non-null input tensor"),
        (
            lambda: tf.train.input_producer(tf.placeholder(tf.float32, [None, None])),
            "`element_shape` must be specified",
        ),
        (lambda: tf.train.limit_epochs(tf.constant(1), 0), "num_epochs must be > 0 not 0."),
        (lambda: tf.train.slice_input_producer([]), "at least one tensor in slice_input_producer"),
    ],
)
def test_a_producer_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_producer_of_no_names_fails_in_the_step():
    names = tf.placeholder_with_default(np.zeros(0, object), [None])
    name = tf.train.string_input_producer(names).dequeue()
    coordinator = tf.train.Coordinator()
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(session, coordinator)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(name)
        with pytest.raises(tf.errors.InvalidArgumentError, match="non-null input tensor"):
            coordinator.join(threads, stop_grace_period_secs=20)


# -- Batches -----------------------------------------------------------------------------


def test_batches_keep_order_and_may_leave_a_smaller_one():
    number = numbers(7)
    batch = tf.train.batch([number, number * 10], 3, allow_smaller_final_batch=True)
    assert [t.shape.as_list() for t in batch] == [[None], [None]]
    with running() as session:
        found = [[part.tolist() for part in each] for each in all_of(session, batch)]
    assert found == [[[0, 1, 2], [0, 10, 20]], [[3, 4, 5], [30, 40, 50]], [[6], [60]]]


def test_batches_are_whole_by_default():
    batch = tf.train.batch({"n": numbers(7)}, 3)
    assert batch["n"].shape.as_list() == [3]
    with running() as session:
        found = all_of(session, batch)
    assert [each["n"].tolist() for each in found] == [[0, 1, 2], [3, 4, 5]]


def test_rows_can_be_elements():
    rows = tf.train.batch(
        [tf.train.limit_epochs(np.arange(6.0).reshape(3, 2), 1)],
        2,
        enqueue_many=True,
        allow_smaller_final_batch=True,
    )
    assert rows.shape.as_list() == [None, 2]
    with running() as session:
        assert [b.tolist() for b in all_of(session, rows)] == [[[0, 1], [2, 3]], [[4, 5]]]


def test_elements_of_different_sizes_are_padded():
    batch = tf.train.batch([tf.range(numbers(4))], 2, dynamic_pad=True)
    assert batch.shape.as_list() == [2, None]
    with running() as session:
        found = [b.tolist() for b in all_of(session, batch)]
    assert found == [[[0], [0]], [[0, 1, 0], [0, 1, 2]]]


def test_a_shuffled_batch_has_everything_once():
    batch = tf.train.shuffle_batch([numbers(20)], 4, capacity=30, min_after_dequeue=10, seed=5)
    with running() as session:
        found = np.concatenate(all_of(session, batch)).tolist()
    assert sorted(found) == list(range(20)) and found != sorted(found)


def test_several_sources_are_joined():
    lists = [[numbers(4)], [numbers(4) + 100]]
    joined = tf.train.batch_join(lists, 4)
    shuffled = tf.train.shuffle_batch_join(
        [{"n": numbers(2)}, {"n": numbers(2)}], 4, capacity=9, min_after_dequeue=0
    )
    with running() as session:
        found = np.concatenate(all_of(session, joined))
        assert sorted(found.tolist()) == [0, 1, 2, 3, 100, 101, 102, 103]
        assert sorted(session.run(shuffled)["n"].tolist()) == [0, 0, 1, 1]


def test_many_threads_may_fill_the_queue():
    batch = tf.train.batch([numbers(60)], 20, num_threads=4, capacity=7)
    with running() as session:
        found = np.concatenate(all_of(session, batch))
    assert sorted(found.tolist()) == list(range(60))


def test_only_what_is_kept_is_enqueued():
    number = numbers(10)
    even = tf.equal(number % 2, 0)
    batch = tf.train.maybe_batch([number], even, 5)
    with running() as session:
        assert session.run(batch).tolist() == [0, 2, 4, 6, 8]


def test_rows_that_are_kept_are_chosen_by_a_vector():
    rows = tf.train.limit_epochs(tf.constant([[1], [2], [3], [4]]), 1)
    keep = tf.constant([True, False, True, False])
    batch = tf.train.maybe_shuffle_batch([rows], 2, 9, 0, keep, enqueue_many=True)
    with running() as session:
        assert sorted(session.run(batch).ravel().tolist()) == [1, 3]


def test_sparse_tensors_go_through_batches():
    number = numbers(3)
    indices = tf.cast(tf.stack([[0, 0], tf.stack([1, number])]), tf.int64)
    sparse = tf.SparseTensor(indices, tf.stack([number, number * 10]), [2, 3])
    batch, dense = tf.train.batch([sparse, number], 2, allow_smaller_final_batch=True)
    assert batch.indices.shape.as_list() == [None, 3]
    with running() as session:
        (first, of_first), (second, of_second) = all_of(session, [batch, dense])
    assert first.indices.tolist() == [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 1]]
    assert first.values.tolist() == [0, 0, 1, 10] and of_first.tolist() == [0, 1]
    assert first.dense_shape.tolist() == [2, 2, 3]
    assert second.values.tolist() == [2, 20] and of_second.tolist() == [2]
    assert second.dense_shape.tolist() == [1, 2, 3]


def test_the_rows_of_a_sparse_tensor_can_be_elements():
    sparse = tf.SparseTensor([[0, 1], [2, 0], [2, 1]], [1, 2, 3], [3, 2])
    once = tf.train.limit_epochs(sparse.values, 1)
    limited = tf.SparseTensor(sparse.indices, once, sparse.dense_shape)
    batch = tf.train.batch([limited], 3, enqueue_many=True)
    with running() as session:
        found = session.run(batch)
    assert found.indices.tolist() == [[0, 1], [2, 0], [2, 1]]
    assert found.values.tolist() == [1, 2, 3]
    assert found.dense_shape.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tf.train.batch([], 2), ValueError, "at least one tensor in batch"),
        (
            lambda: tf.train.batch([tf.placeholder(tf.float32)], 2),
            ValueError,
            "Cannot infer Tensor's rank",
        ),
        (
            lambda: tf.train.shuffle_batch([tf.constant(1)], 2, 3, 3),
            ValueError,
            "capacity 3 must be bigger than min_after_dequeue 3.",
        ),
        (
            lambda: tf.train.maybe_batch([tf.constant(1)], [True, False], 2),
            ValueError,
            "`keep_input` cannot be a vector",
        ),
        (lambda: tf.train.batch_join([], 2), ValueError, "at least one set of tensors"),
        (
            lambda: tf.train.batch_join([{"a": 1}, {"b": 1}], 2),
            ValueError,
            "must have the same keys",
        ),
        (
            lambda: tf.train.batch_join([[tf.constant(1)], [tf.constant(1.0)]], 2),
            TypeError,
            "Expected types to be consistent: int32 vs. float32.",
        ),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_operations_have_tensorflows_names():
    number = tf.train.range_input_producer(3, num_epochs=1).dequeue()
    tf.train.batch([number], 2)
    names = {op.name: op.type for op in tf.get_default_graph().get_operations()}
    assert names["input_producer"] == "FIFOQueueV2"
    assert names["input_producer/input_producer_EnqueueMany"] == "QueueEnqueueManyV2"
    assert names["input_producer_Dequeue"] == "QueueDequeueV2"
    assert names["batch/fifo_queue"] == "FIFOQueueV2"
    assert names["batch/fifo_queue_enqueue"] == "QueueEnqueueV2"
    assert names["batch"] == "QueueDequeueManyV2"
    assert names["batch/fraction_of_32_full"] == "ScalarSummary"
    assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 2
