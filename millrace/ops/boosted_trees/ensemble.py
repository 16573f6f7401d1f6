"""An ensemble of regression trees that grows a layer at a time.

The state is TensorFlow's TreeEnsemble message, so checkpoints and SavedModels pass both ways. A
batch that was routed through an older ensemble (its stamp differs) is dropped. Sums are in float32
and ties go to the lowest feature and bucket, as in TensorFlow: the same data gives the same trees.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.convert import Array
from millrace.ops.boosted_trees.messages import TreeEnsemble

#: Centering ends when a round changes the bias by no more than this share of it.
_CENTERED = 0.01
_NO_PRUNING, _PRE_PRUNING, _POST_PRUNING = range(3)


@dataclasses.dataclass(frozen=True)
class GrowthRules:
    """How trees grow; see `tf.estimator.BoostedTreesEstimator`."""

    max_depth: int
    learning_rate: float
    l1: float
    l2: float
    tree_complexity: float
    min_node_weight: float
    pruning_mode: int


@dataclasses.dataclass(frozen=True)
class Split:
    """The best split of a node by one feature: buckets up to `threshold` go left."""

    gain: float
    feature: int
    threshold: int
    left: float
    right: float


class Ensemble:
    """The trees of a model and the statistics gathered for their next layer.

    Attributes:
      message: The trees; the last one is being grown.
      stamp: Counts the changes.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.message: Any = None
        self.stamp = 0
        self._sums: Any = None
        self._batches = 0

    def load(self, stamp: int, serialized: bytes) -> None:
        """Takes the trees of a serialized message.

        Raises:
          InvalidArgumentError: It is none.
        """
        message = TreeEnsemble()
        try:
            message.ParseFromString(serialized)
        except Exception as error:
            raise errors.InvalidArgumentError(
                None, None, "Unable to parse tree ensemble proto."
            ) from error
        self.message, self.stamp = message, stamp
        self._forget()

    def _forget(self) -> None:
        self._sums, self._batches = None, 0

    def _changed(self) -> None:
        self.stamp += 1
        self._forget()

    def states(self) -> tuple[int, int, int, int, tuple[int, int]]:
        """Stamp, trees, finished trees, layers tried, and the nodes of the last layer."""
        metadata, growing = self.message.tree_metadata, self.message.growing_metadata
        finished = sum(tree.is_finalized for tree in metadata)
        layer = (growing.last_layer_node_start, growing.last_layer_node_end)
        return self.stamp, len(metadata), finished, growing.num_layers_attempted, layer

    # -- Predicting ----------------------------------------------------------------------

    def route(self, features: Sequence[Array]) -> tuple[Array, Array]:
        """The logits of examples, and the node of the last tree in which each ends."""
        examples = len(features[0])
        logits = np.zeros(examples, np.float32)
        nodes = np.zeros(examples, np.int32)
        for tree, weight in zip(self.message.trees, self.message.tree_weights, strict=True):
            nodes = _end_nodes(tree, features, examples)
            leaves = np.array([node.leaf.scalar for node in tree.nodes], np.float32)
            logits += np.float32(weight) * leaves[nodes]
        return logits[:, np.newaxis], nodes

    # -- Growing -------------------------------------------------------------------------

    def _gather(self, stamp: int, sums: Array, batches_wanted: int) -> Array | None:
        """Adds a batch's sums; their mean once there are enough batches."""
        if stamp != self.stamp:
            return None
        self._sums = sums if self._sums is None else self._sums + sums
        self._batches += 1
        if self._batches < batches_wanted:
            return None
        mean: Array = self._sums / np.float32(self._batches)
        return mean

    def center(self, stamp: int, sums: Array, batches: int, rules: GrowthRules) -> bool:
        """Moves the first leaf towards the mean label; whether another round is needed."""
        mean = self._gather(stamp, sums, batches)
        if mean is None:
            return True
        change, _ = _weight_and_gain(mean[0], mean[1], rules)
        if not self.message.trees:
            self._add_tree()
        leaf = self.message.trees[0].nodes[0].leaf
        before = leaf.scalar
        leaf.scalar = np.float32(before) + change
        self._changed()
        return not before or abs(float(change) / before) > _CENTERED

    def grow(
        self, stamp: int, statistics: Array, sizes: Sequence[int], batches: int, rules: GrowthRules
    ) -> None:
        """Gathers a batch and, when there are enough, grows a layer.

        Args:
          stamp: The ensemble's when the batch was routed.
          statistics: Sums of gradients and Hessians by feature, node and bucket.
          sizes: How many buckets each feature has.
          batches: How many batches a layer needs.
          rules: How to grow.
        """
        mean = self._gather(stamp, statistics, batches)
        if mean is None:
            return
        if not self.message.trees:
            self._add_tree()
        tree, metadata = self.message.trees[-1], self.message.tree_metadata[-1]
        growing = self.message.growing_metadata
        if not metadata.num_layers_grown:
            growing.num_trees_attempted += 1
        growing.num_layers_attempted += 1
        first_new = len(tree.nodes)
        for node in range(growing.last_layer_node_start, growing.last_layer_node_end):
            split = _best_split(mean[:, node], sizes, rules)
            if split is not None and not (rules.pruning_mode == _PRE_PRUNING and split.gain < 0):
                _split_node(tree, node, split, rules.learning_rate)
        grown = len(tree.nodes) > first_new
        metadata.num_layers_grown += grown
        if grown and metadata.num_layers_grown < rules.max_depth:
            growing.last_layer_node_start = first_new
            growing.last_layer_node_end = len(tree.nodes)
        elif len(tree.nodes) == 1:
            growing.last_layer_node_start, growing.last_layer_node_end = 0, 1
        else:
            if rules.pruning_mode == _POST_PRUNING:
                _prune(tree)
            metadata.is_finalized = True
            self._add_tree()
        self._changed()

    def _add_tree(self) -> None:
        leaf = self.message.trees.add().nodes.add().leaf
        leaf.SetInParent()
        self.message.tree_weights.append(1.0)
        self.message.tree_metadata.add()
        growing = self.message.growing_metadata
        growing.last_layer_node_start, growing.last_layer_node_end = 0, 1


def _end_nodes(tree: Any, features: Sequence[Array], examples: int) -> Array:
    """The leaf in which each example ends."""
    ends = np.zeros(examples, np.int32)
    # Children come after their parent, so one pass in order reaches every leaf.
    for index, node in enumerate(tree.nodes):
        if node.WhichOneof("node") == "bucketized_split":
            split = node.bucketized_split
            here = np.flatnonzero(ends == index)
            left = features[split.feature_id][here] <= split.threshold
            ends[here] = np.where(left, split.left_id, split.right_id)
    return ends


def gather_statistics(
    nodes: Array, gradients: Array, hessians: Array, features: Sequence[Array],
    max_nodes: int, max_buckets: int,
) -> Array:  # fmt: skip
    """Sums of gradients and Hessians by feature, node and bucket."""
    found = np.zeros((len(features), max_nodes, max_buckets, 2), np.float32)
    for place, buckets in zip(found, features, strict=True):
        np.add.at(place[..., 0], (nodes, buckets), gradients[:, 0])
        np.add.at(place[..., 1], (nodes, buckets), hessians[:, 0])
    return found


def _weight_and_gain(gradient: Any, hessian: Any, rules: GrowthRules) -> tuple[Any, Any]:
    """The value of a leaf with these sums, and how much it lowers the loss (elementwise)."""
    gradient = np.asarray(gradient, np.float32)
    l1 = np.float32(rules.l1)
    shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, np.float32(0))
    divisor = np.asarray(hessian, np.float32) + np.float32(rules.l2)
    used = divisor > np.float32(1e-15)
    safe = np.where(used, divisor, np.float32(1))
    weight = np.where(used, -shrunk / safe, np.float32(0))
    gain = np.where(used, shrunk * shrunk / safe, np.float32(0))
    return weight, gain


def _best_split(statistics: Array, sizes: Sequence[int], rules: GrowthRules) -> Split | None:
    """The best split of a node over all features; None if it holds too little."""
    best: Split | None = None
    for feature, size in enumerate(sizes):
        sums = np.cumsum(statistics[feature, :size], axis=0, dtype=np.float32)
        total = sums[-1]
        if total[1] < rules.min_node_weight:
            continue
        rest = total - sums
        left, left_gain = _weight_and_gain(sums[:, 0], sums[:, 1], rules)
        right, right_gain = _weight_and_gain(rest[:, 0], rest[:, 1], rules)
        _, before = _weight_and_gain(total[0], total[1], rules)
        gains = left_gain + right_gain
        at = int(np.argmax(gains))
        gain = float(gains[at] - before - np.float32(rules.tree_complexity))
        if best is None or gain > best.gain:
            best = Split(gain, feature, at, float(left[at]), float(right[at]))
    return best


def _split_node(tree: Any, index: int, split: Split, learning_rate: float) -> None:
    """Turns a leaf into a split with two leaves, which begin at its value."""
    node = tree.nodes[index]
    before = np.float32(node.leaf.scalar)
    rate = np.float32(learning_rate)
    if before:
        node.metadata.original_leaf.scalar = before
    node.metadata.gain = split.gain
    made = node.bucketized_split
    made.feature_id, made.threshold = split.feature, split.threshold
    made.left_id, made.right_id = len(tree.nodes), len(tree.nodes) + 1
    for contribution in (split.left, split.right):
        tree.nodes.add().leaf.scalar = before + rate * np.float32(contribution)


def _prune(tree: Any) -> None:
    """Removes splits without gain from the bottom, and numbers the nodes again."""
    kept: list[Any] = list(tree.nodes)
    for node in reversed(kept):
        if node.WhichOneof("node") != "bucketized_split" or node.metadata.gain >= 0:
            continue
        split = node.bucketized_split
        if all(
            kept[child].WhichOneof("node") == "leaf" for child in (split.left_id, split.right_id)
        ):
            value = node.metadata.original_leaf.scalar
            node.ClearField("metadata")
            node.leaf.scalar = value
    reached = [0]
    for index in reached:
        if kept[index].WhichOneof("node") == "bucketized_split":
            reached += [kept[index].bucketized_split.left_id, kept[index].bucketized_split.right_id]
    reached.sort()
    numbers = {old: new for new, old in enumerate(reached)}
    pruned = []
    for old in reached:
        node = type(kept[old])()
        node.CopyFrom(kept[old])
        if node.WhichOneof("node") == "bucketized_split":
            node.bucketized_split.left_id = numbers[node.bucketized_split.left_id]
            node.bucketized_split.right_id = numbers[node.bucketized_split.right_id]
        pruned.append(node)
    del tree.nodes[:]
    tree.nodes.extend(pruned)
