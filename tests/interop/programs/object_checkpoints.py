"""Saves and restores a tf.train.Checkpoint with TensorFlow; prints JSON."""

from __future__ import annotations

import json
import sys

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def build():
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    r = tf.get_variable("r", [2], use_resource=True, initializer=tf.zeros_initializer())
    optimizer = tf.train.AdamOptimizer(0.1)
    train = optimizer.minimize(tf.reduce_sum(v * v) + tf.reduce_sum((r - 1.0) ** 2))
    checkpoint = tf.train.Checkpoint(
        v=v, optimizer=optimizer, items=[r, {"again": v}], inner=tf.train.Checkpoint(r=r)
    )
    return checkpoint, train, [v, r, *optimizer.variables()]


def main():
    action, path = sys.argv[1:]
    checkpoint, train, variables = build()
    with tf.Session() as session:
        if action == "save":
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            path = checkpoint.save(path, session=session)
        else:
            checkpoint.restore(path).assert_consumed().run_restore_ops(session)
        reader = tf.train.NewCheckpointReader(path)
        graph = reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH").hex()
        values = {v.op.name: session.run(v).tolist() for v in variables}
        print(json.dumps({"path": path, "values": values, "graph": graph}))


main()
