"""Iterators in checkpoints: saved with a Saver, and by CheckpointInputPipelineHook."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def pipeline() -> Any:
    dataset = tf.data.Dataset.range(100).shuffle(10, seed=4).map(lambda x: x * 2).batch(3)
    return tf.data.make_initializable_iterator(dataset.prefetch(2))


def test_a_restored_session_takes_the_elements_that_the_saved_one_would_have(
    tmp_path: Path,
) -> None:
    iterator = pipeline()
    following = iterator.get_next()
    saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        for _ in range(4):
            sess.run(following)
        path = saver.save(sess, str(tmp_path / "ckpt"))
        expected = [sess.run(following).tolist() for _ in range(5)]
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        saver.restore(sess, path)
        assert [sess.run(following).tolist() for _ in range(5)] == expected


def test_a_state_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    iterator = pipeline()
    saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        path = saver.save(sess, str(tmp_path / "ckpt"))
    with tf.Graph().as_default():
        other = tf.data.make_initializable_iterator(tf.data.Dataset.range(3).repeat(2))
        saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(other)])
        with tf.Session() as sess:
            sess.run(other.initializer)
            with pytest.raises(tf.errors.InvalidArgumentError, match="another pipeline"):
                saver.restore(sess, path)


def test_the_hook_lets_a_new_session_go_on_with_the_input(tmp_path: Path) -> None:
    estimator = SimpleNamespace(
        model_dir=str(tmp_path),
        config=SimpleNamespace(
            save_checkpoints_secs=None, save_checkpoints_steps=2, num_worker_replicas=1
        ),
    )

    def run(steps: int) -> list[int]:
        seen = []
        with tf.Graph().as_default():
            iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(100))
            following = iterator.get_next()
            step = tf.train.get_or_create_global_step()
            train = tf.assign_add(step, 1)
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            hook = tf.data.experimental.CheckpointInputPipelineHook(estimator)
            with tf.train.MonitoredSession(hooks=[hook]) as sess:
                for _ in range(steps):
                    seen.append(int(sess.run([following, train])[0]))
        return seen

    assert run(5) == [0, 1, 2, 3, 4]
    assert run(3) == [5, 6, 7]
    assert (tmp_path / "checkpoint_input").exists()
