"""Graphs with Switch, Merge, Enter, Exit, stacks and TensorArrays, built by real TensorFlow."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import millrace as tf

FIGURES = np.load(pathlib.Path(__file__).parent / "figures" / "frames.npz")
CASES = sorted({key.split("/")[0] for key in FIGURES.files if "/" in key})


@pytest.mark.parametrize("name", CASES)
def test_a_stock_graph_computes_what_tensorflow_computed(name):
    with tf.Graph().as_default(), tf.Session() as sess:
        graph_def = tf.GraphDef.FromString(FIGURES[f"{name}/graph"].tobytes())
        tf.import_graph_def(graph_def, name="")
        sess.run("initialize")
        inputs, outputs = FIGURES[f"{name}/inputs"], FIGURES[f"{name}/outputs"]
        turn = 0
        while f"{name}/{turn}/result/0" in FIGURES:
            feed = {str(t): FIGURES[f"{name}/{turn}/feed/{j}"] for j, t in enumerate(inputs)}
            results = sess.run([str(t) for t in outputs], feed)
            for j, value in enumerate(results):
                expected = FIGURES[f"{name}/{turn}/result/{j}"]
                assert np.asarray(value).dtype == expected.dtype
                np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
            turn += 1
        assert turn > 0


def test_every_recorded_graph_really_has_the_old_control_flow():
    for name in CASES:
        graph_def = tf.GraphDef.FromString(FIGURES[f"{name}/graph"].tobytes())
        assert {node.op for node in graph_def.node} & {"Switch", "Enter"}, name
