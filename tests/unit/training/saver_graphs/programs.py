"""Savers of all kinds, built with any library that has TensorFlow 1's interface.

Run with real TensorFlow 2.21, it writes `recorded.json`: the nodes that TensorFlow makes.
test_saver_graphs.py compares those that Millrace makes.
"""

import json
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded.json"


def _on_two_ps(tf, use_resource):
    with tf.device("/job:ps/task:1"):
        tf.get_variable("b", initializer=[1.0, 2.0])
    with tf.device("/job:ps/task:0"):
        tf.get_variable("a", initializer=3)
        tf.get_variable("r", [2], use_resource=use_resource)


def whole(tf):
    _on_two_ps(tf, True)
    tf.train.Saver()


def sharded(tf):
    _on_two_ps(tf, True)
    tf.train.Saver(sharded=True)


def reshaped(tf):
    tf.Variable([1.0, 2.0], name="b")
    tf.get_variable("r", [2], use_resource=True)
    tf.Variable(tf.placeholder(tf.float32), validate_shape=False, name="u")
    tf.train.Saver(reshape=True)


def old(tf):
    tf.Variable([1.0, 2.0], name="b")
    tf.get_variable("r", [2], use_resource=True)
    tf.train.Saver(write_version=tf.train.SaverDef.V1)


def old_sharded(tf):
    _on_two_ps(tf, False)
    tf.train.Saver(write_version=tf.train.SaverDef.V1, sharded=True)


def in_parts(tf):
    tf.Variable([1.0, 2.0], name="b")
    tf.get_variable("p", [5, 2], partitioner=tf.fixed_size_partitioner(2))
    tf.train.Saver(restore_sequentially=True)


def under_other_names(tf):
    p = tf.get_variable("p", [5, 2], partitioner=tf.fixed_size_partitioner(2))
    v = tf.get_variable("v", [5])
    r = tf.get_variable("r", [5], use_resource=True)
    tf.train.Saver({"x": p, "y": v, "z": r}, name="other", filename="name", max_to_keep=None)
    tf.train.Saver([v, list(p)])


PROGRAMS = (whole, sharded, reshaped, old, old_sharded, in_parts, under_other_names)


def nodes(tf, program):
    """The nodes of all Savers: type, inputs, device and, of constants, the value."""
    with tf.Graph().as_default() as graph:
        program(tf)
        found = {}
        for op in graph.get_operations():
            if op.name.startswith(("save", "other")):
                value = ""
                if op.type == "Const":
                    value = str(tf.make_ndarray(op.node_def.attr["value"].tensor).tolist())
                # The order of control inputs means nothing.
                inputs = sorted(op.node_def.input, key=lambda name: name if name[0] == "^" else "")
                found[op.name] = [op.type, inputs, op.device, value]
        return found


def main():
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    recorded = {program.__name__: nodes(tf, program) for program in PROGRAMS}
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
