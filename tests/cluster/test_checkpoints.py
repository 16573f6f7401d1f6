"""Checkpoints of a cluster: written by the ps tasks themselves, restored on another number."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf

ROWS = np.arange(33, dtype=np.float32).reshape(11, 3)


def build(ps_tasks: int) -> list[Any]:
    """Variables of several kinds on all ps tasks, one of them cut into a part for each."""
    made: list[Any] = []
    for i in range(4):
        with tf.device(f"/job:ps/task:{i % ps_tasks}"):
            made.append(tf.get_variable(f"v{i}", initializer=tf.fill([5], float(i))))
    with tf.device(f"/job:ps/task:{ps_tasks - 1}"):
        made.append(tf.get_variable("words", initializer=["a", "b"]))
        made.append(tf.get_variable("handle", initializer=[1, 2], use_resource=True))

    places = iter(range(ps_tasks))

    def place(op: tf.Operation) -> str:
        is_part = op.type in ("Variable", "VariableV2", "VarHandleOp")
        return f"/job:ps/task:{next(places)}" if is_part else ""

    with tf.device(place):
        made.append(
            tf.get_variable(
                "cut",
                ROWS.shape,
                partitioner=tf.fixed_size_partitioner(ps_tasks),
                initializer=tf.zeros_initializer(),
            )
        )
    return made


def values(sess: tf.Session, variables: list[Any]) -> list[Any]:
    return [sess.run(tf.convert_to_tensor(v)).tolist() for v in variables]


@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
def test_what_three_ps_tasks_saved_two_restore(
    make_cluster: Callable[..., Any], tmp_path: Path, sharded: bool
) -> None:
    cluster = make_cluster({"ps": 3, "worker": 1})
    with tf.Graph().as_default():
        variables = build(3)
        fill = variables[-1].assign(ROWS)
        saver = tf.train.Saver(sharded=sharded)
        with tf.Session(cluster.target("worker")) as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(fill)
            expected = values(sess, variables)
            path = saver.save(sess, str(tmp_path / "m"), global_step=1)
    assert expected[-1] == ROWS.tolist()
    shards = 3 if sharded else 1
    assert len(list(tmp_path.glob(f"m-1.data-*-of-{shards:05d}"))) == shards
    assert not list(tmp_path.glob("*temp*"))
    other = make_cluster({"ps": 2, "worker": 1})
    with tf.Graph().as_default():
        variables = build(2)
        saver = tf.train.Saver(sharded=True)
        with tf.Session(other.target("worker")) as sess:
            saver.restore(sess, path)
            assert values(sess, variables) == expected


def test_a_ps_that_cannot_write_is_told_and_nothing_is_lost(
    make_cluster: Callable[..., Any], tmp_path: Path
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    with tf.Graph().as_default():
        variables = build(2)
        saver = tf.train.Saver(sharded=True)
        with tf.Session(cluster.target("worker")) as sess:
            sess.run(tf.global_variables_initializer())
            first = saver.save(sess, str(tmp_path / "m"), global_step=1)
            expected = values(sess, variables)
            # A file where the folder of the shards should be.
            (tmp_path / "m-2_temp").write_text("")
            with pytest.raises(tf.errors.OpError, match="m-2_temp.*(Not a directory|exists)"):
                saver.save(sess, str(tmp_path / "m"), global_step=2)
            assert tf.train.latest_checkpoint(str(tmp_path)) == first
            saver.restore(sess, first)
            assert values(sess, variables) == expected
