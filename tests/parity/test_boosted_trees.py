"""Boosted trees grow TensorFlow 1.15's trees (`record_boosted_trees.py` made the figures)."""

import json
import pathlib

import numpy as np
import pytest

import millrace as tf
from millrace.ops.boosted_trees.ensemble import Ensemble, GrowthRules, gather_statistics
from millrace.ops.boosted_trees.messages import TreeEnsemble
from tests.parity import record_boosted_trees as program

_FIGURES = json.loads(
    (pathlib.Path(__file__).parent / "figures" / "boosted_trees.json").read_text()
)["cases"]


def _splits(serialized: str) -> list[list[tuple[int, int]]]:
    trees = TreeEnsemble.FromString(bytes.fromhex(serialized)).trees
    return [
        [(node.bucketized_split.threshold, node.bucketized_split.left_id) for node in tree.nodes]
        for tree in trees
    ]


@pytest.mark.parametrize("case", program.CASES)
def test_trees_metrics_and_predictions_are_tensorflows(case, tmp_path) -> None:
    tf.reset_default_graph()
    wanted = _FIGURES[case]
    found = program.figures(tf, case, str(tmp_path))
    assert found["metrics"] == pytest.approx(wanted["metrics"], abs=1e-5)
    assert found["predictions"] == pytest.approx(wanted["predictions"], abs=1e-5)
    assert found["names"] == wanted["names"]
    # Not the features: two indicators may gain the same up to the last bit.
    assert _splits(found["trees"]) == _splits(wanted["trees"])


def test_a_column_that_is_not_bucketized_is_refused() -> None:
    model = tf.estimator.BoostedTreesRegressor([tf.feature_column.numeric_column("a")], 1)
    with pytest.raises(ValueError, match="Boosted trees take bucketized and indicator columns"):
        model.train(lambda: tf.data.Dataset.from_tensors(({"a": [1.0]}, [1.0])), steps=1)


def test_pruning_needs_a_complexity() -> None:
    with pytest.raises(ValueError, match="For pruning, tree_complexity must be positive"):
        tf.estimator.BoostedTreesRegressor([], 1, pruning_mode="pre")
    with pytest.raises(ValueError, match="Tree complexity have no effect"):
        tf.estimator.BoostedTreesRegressor([], 1, tree_complexity=1.0)


def test_a_batch_routed_through_older_trees_is_dropped() -> None:
    rules = GrowthRules(1, 1.0, 0.0, 0.0, 0.0, 0.0, 0)
    ensemble = Ensemble()
    ensemble.load(0, b"")
    features = [np.array([0, 1], np.int32)]
    gradients, hessians = np.array([[1.0], [-1.0]], np.float32), np.ones((2, 1), np.float32)
    _, nodes = ensemble.route(features)
    statistics = gather_statistics(nodes, gradients, hessians, features, 2, 2)
    ensemble.grow(0, statistics, [2], 1, rules)
    grown = ensemble.message.SerializeToString()
    ensemble.grow(0, statistics, [2], 1, rules)
    assert ensemble.message.SerializeToString() == grown
    assert ensemble.route(features)[0].tolist() == [[-1.0], [1.0]]
