"""A tf.train.Checkpoint travels both ways between Millrace and a stock TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import millrace as tf


def build() -> tuple[Any, Any, list[Any]]:
    """What programs/object_checkpoints.py builds."""
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    r = tf.get_variable("r", [2], use_resource=True, initializer=tf.zeros_initializer())
    optimizer = tf.train.AdamOptimizer(0.1)
    train = optimizer.minimize(tf.reduce_sum(v * v) + tf.reduce_sum((r - 1.0) ** 2))
    checkpoint = tf.train.Checkpoint(
        v=v, optimizer=optimizer, items=[r, {"again": v}], inner=tf.train.Checkpoint(r=r)
    )
    return checkpoint, train, [v, r, *optimizer.variables()]


def values(session: Any, variables: list[Any]) -> dict[str, Any]:
    return {v.op.name: session.run(v).tolist() for v in variables}


def test_tensorflow_restores_our_objects(
    run_tensorflow: Callable[..., Any], tmp_path: Path
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        checkpoint, train, variables = build()
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        path = checkpoint.save(str(tmp_path / "ours"), session=session)
        wanted = values(session, variables)
    assert run_tensorflow("object_checkpoints.py", "restore", path)["values"] == wanted


def test_we_restore_tensorflows_objects(run_tensorflow: Callable[..., Any], tmp_path: Path) -> None:
    theirs = run_tensorflow("object_checkpoints.py", "save", str(tmp_path / "theirs"))
    with tf.Graph().as_default(), tf.Session() as session:
        checkpoint, _, variables = build()
        checkpoint.restore(theirs["path"]).assert_consumed().run_restore_ops(session)
        assert values(session, variables) == theirs["values"]
        assert session.run(checkpoint.save_counter) == 1
        again = checkpoint.write(str(tmp_path / "again"), session)
        reader = tf.train.NewCheckpointReader(again)
        # The description of the objects is TensorFlow's, byte for byte.
        assert reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH").hex() == theirs["graph"]
