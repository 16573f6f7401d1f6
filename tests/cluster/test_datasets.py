"""Pipelines on servers: each runs on the task whose iterator it is."""

import threading

import pytest

import millrace as tf


def test_a_pipeline_feeds_a_training_whose_variables_are_elsewhere(cluster):
    with tf.device("/job:ps/task:0"):
        total = tf.Variable(0, dtype=tf.int64, name="total")
    with tf.device("/job:worker/task:1"):
        dataset = tf.data.Dataset.range(100).map(lambda x: x * 2, num_parallel_calls=2).batch(5)
        iterator = tf.data.make_initializable_iterator(dataset.prefetch(2))
        batch = iterator.get_next()
        train = tf.assign_add(total, tf.reduce_sum(batch))
    for remote in (False, True):
        with tf.Session(cluster.target("worker", 0, remote=remote)) as sess:
            sess.run([total.initializer, iterator.initializer])
            for _ in range(20):
                sess.run(train)
            with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                sess.run(train)
            assert sess.run(total) == 9900


def test_sessions_share_an_iterator_of_one_shared_name(cluster):
    def client():
        with tf.Graph().as_default() as graph, tf.device("/job:worker/task:0"):
            iterator = tf.data.make_initializable_iterator(
                tf.data.Dataset.range(10), shared_name="rows"
            )
            following = iterator.get_next()
            return tf.Session(cluster.target("worker"), graph=graph), iterator, following

    one, iterator, first = client()
    two, _, second = client()
    with one, two:
        one.run(iterator.initializer)
        assert [one.run(first), two.run(second), one.run(first)] == [0, 1, 2]


def test_many_steps_that_wait_for_elements_do_not_hold_up_others(cluster):
    gate = threading.Event()
    with tf.device("/job:worker/task:0"):
        slow = tf.data.Dataset.range(100).map(
            lambda x: tf.py_func(lambda v: (gate.wait(30), v)[1], [x], tf.int64)
        )
        following = tf.data.make_one_shot_iterator(slow).get_next()
        other = tf.constant(5) + 1
    found = []
    with tf.Session(cluster.target("worker")) as sess:
        threads = [
            threading.Thread(target=lambda: found.append(int(sess.run(following))))
            for _ in range(30)
        ]
        for thread in threads:
            thread.start()
        assert sess.run(other) == 6
        gate.set()
        for thread in threads:
            thread.join(30)
    assert sorted(found) == list(range(30))


def test_closing_a_session_ends_the_wait_for_an_element(cluster):
    gate = threading.Event()
    with tf.device("/job:worker/task:0"):
        slow = tf.data.Dataset.range(3).map(
            lambda x: tf.py_func(lambda v: (gate.wait(30), v)[1], [x], tf.int64)
        )
        following = tf.data.make_one_shot_iterator(slow).get_next()
    sess = tf.Session(cluster.target("worker"))
    told = []

    def wait():
        try:
            sess.run(following)
        except tf.errors.OpError as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not any(t.name.startswith("iterator") for t in threading.enumerate()):
        assert thread.is_alive()
    sess.close()
    thread.join(20)
    gate.set()
    assert [type(error) for error in told] == [tf.errors.CancelledError]
