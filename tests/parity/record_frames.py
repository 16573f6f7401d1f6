"""Records graphs with TensorFlow 1.x control flow, and what real TensorFlow computes with them.

Run with an interpreter that has tensorflow-cpu:
    python tests/parity/record_frames.py
Writes tests/parity/figures/frames.npz; tests/parity/test_frames.py runs the graphs on Millrace.
"""

from __future__ import annotations

import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.disable_control_flow_v2()

FLOAT = np.float32


def cond():
    x = tf.placeholder(tf.float32, [])
    y = tf.cond(x > 0, lambda: x * 2.0, lambda: tf.constant(7.0))
    return [x], [y, tf.gradients(y, x)[0]], [[FLOAT(3)], [FLOAT(-3)]]


def nested_cond():
    x = tf.placeholder(tf.float32, [])
    y = tf.cond(
        x > 0,
        lambda: tf.cond(x > 1, lambda: x * x, lambda: x + 1.0) * 2.0,
        lambda: tf.cond(x < -1, lambda: -x, lambda: tf.constant(5.0)),
    )
    return [x], [y, tf.gradients(y, x)[0]], [[FLOAT(v)] for v in (2, 0.5, -2, -0.5)]


def model_after_cond():
    x = tf.placeholder(tf.float32, [2, 3])
    flag = tf.placeholder(tf.bool, [])
    y = tf.cond(flag, lambda: x + 1.0, lambda: x - 1.0)
    z = tf.cond(tf.reduce_sum(y) > 0, lambda: tf.tanh(y), lambda: tf.sin(y))
    loss = tf.reduce_sum(tf.matmul(z, tf.ones([3, 2])))
    image = np.arange(6, dtype=FLOAT).reshape(2, 3) / 7
    return [x, flag], [loss, tf.gradients(loss, x)[0]], [[image, np.True_], [image, np.False_]]


def while_with_gradient():
    x = tf.placeholder(tf.float32, [])
    i, y = tf.while_loop(lambda i, a: i < 10, lambda i, a: (i + 1, a * x), [0, 1.0])
    return [x], [i, y, tf.gradients(y, x)[0]], [[FLOAT(1.1)], [FLOAT(0.5)]]


def loop_that_is_not_entered():
    x = tf.placeholder(tf.float32, [])
    n = tf.placeholder(tf.int32, [])
    _, y = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * x), [0, x])
    return (
        [x, n],
        [y, tf.gradients(y, x)[0]],
        [[FLOAT(1.5), np.int32(0)], [FLOAT(1.5), np.int32(3)]],
    )


def loop_in_a_branch():
    x = tf.placeholder(tf.float32, [])

    def loop():
        return tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a + x), [0, 0.0])[1]

    y = tf.cond(x > 0, loop, lambda: -x)
    return [x], [y, tf.gradients(y, x)[0]], [[FLOAT(2)], [FLOAT(-2)]]


def nested_loops_with_cond():
    x = tf.placeholder(tf.float32, [])
    n = tf.placeholder(tf.int32, [])

    def body(i, a):
        b = tf.cond(tf.equal(i % 2, 0), lambda: a * x, lambda: a + x)
        _, c = tf.while_loop(lambda j, c: j < i, lambda j, c: (j + 1, c * tf.sin(x) + 1.0), [0, b])
        return i + 1, c

    _, y = tf.while_loop(lambda i, a: i < n, body, [0, 1.0])
    feeds = [[FLOAT(1.1), np.int32(5)], [FLOAT(0.5), np.int32(0)], [FLOAT(0.7), np.int32(1)]]
    return [x, n], [y, tf.gradients(y, x)[0]], feeds


def lstm():
    x = tf.placeholder(tf.float32, [3, 5, 4])
    w = tf.Variable(np.random.RandomState(0).randn(10, 24).astype(FLOAT) * 0.3)
    b = tf.Variable(np.zeros(24, FLOAT))
    inputs = tf.TensorArray(tf.float32, 5).unstack(tf.transpose(x, [1, 0, 2]))

    def body(t, h, c, out):
        z = tf.matmul(tf.concat([inputs.read(t), h], 1), w) + b
        i, j, f, o = tf.split(z, 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return t + 1, h, c, out.write(t, h)

    start = [0, tf.zeros([3, 6]), tf.zeros([3, 6]), tf.TensorArray(tf.float32, 5)]
    _, _, _, out = tf.while_loop(lambda t, *_: t < 5, body, start)
    y = out.stack()
    loss = tf.reduce_sum(y * y)
    batch = np.random.RandomState(1).randn(3, 5, 4).astype(FLOAT)
    return [x], [y, loss, *tf.gradients(loss, [x, w, b])], [[batch]]


def assignments_in_a_loop():
    x = tf.placeholder(tf.float32, [])
    v = tf.Variable(1.0)

    def body(i):
        with tf.control_dependencies([v.assign_add(x)]):
            return i + 1

    done = tf.while_loop(lambda i: i < 4, body, [0])
    with tf.control_dependencies([done]):
        return [x], [v.read_value()], [[FLOAT(2)]]


def assignment_in_a_branch():
    flag = tf.placeholder(tf.bool, [])
    v = tf.Variable(1.0)
    done = tf.cond(flag, lambda: tf.identity(tf.assign(v, v + 10.0)), lambda: tf.constant(-1.0))
    with tf.control_dependencies([done]):
        return [flag], [done, v.read_value()], [[np.False_], [np.True_], [np.True_]]


def mapped_cond():
    x = tf.placeholder(tf.float32, [None])
    y = tf.map_fn(lambda e: tf.cond(e > 0, lambda: e * e, lambda: -e), x)
    return [x], [y, tf.gradients(y, x)[0]], [[np.array([1, -2, 3], FLOAT)], [np.array([-1], FLOAT)]]


def growing_array():
    n = tf.placeholder(tf.int32, [])
    array = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
    _, array = tf.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, i * i)), [0, array]
    )
    return [n], [array.stack(), array.size()], [[np.int32(5)], [np.int32(2)]]


CASES = [
    cond,
    nested_cond,
    model_after_cond,
    while_with_gradient,
    loop_that_is_not_entered,
    loop_in_a_branch,
    nested_loops_with_cond,
    lstm,
    assignments_in_a_loop,
    assignment_in_a_branch,
    mapped_cond,
    growing_array,
]


def main() -> None:
    """Runs every case on real TensorFlow and writes the figures."""
    arrays: dict[str, np.ndarray] = {
        "origin": np.array(f"TensorFlow {tf.__version__}, python tests/parity/record_frames.py")
    }
    for build in CASES:
        name = build.__name__
        graph = tf.Graph()
        with graph.as_default(), tf.Session() as sess:
            inputs, outputs, feeds = build()
            tf.group(tf.global_variables_initializer(), name="initialize")
            sess.run("initialize")
            arrays[f"{name}/graph"] = np.frombuffer(
                graph.as_graph_def().SerializeToString(), np.uint8
            )
            arrays[f"{name}/inputs"] = np.array([t.name for t in inputs])
            arrays[f"{name}/outputs"] = np.array([t.name for t in outputs])
            for i, values in enumerate(feeds):
                results = sess.run(outputs, dict(zip(inputs, values, strict=True)))
                for j, value in enumerate(values):
                    arrays[f"{name}/{i}/feed/{j}"] = np.asarray(value)
                for j, value in enumerate(results):
                    arrays[f"{name}/{i}/result/{j}"] = np.asarray(value)
        print(name, "recorded")
    path = pathlib.Path(__file__).parent / "figures" / "frames.npz"
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main()
