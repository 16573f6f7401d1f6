"""`BoostedTreesClassifier`, `BoostedTreesRegressor`, `BoostedTreesEstimator`.

Features are bucketized or indicator columns; every indicator is a feature with two buckets. A
training step routes its batch through the trees and hands gradients and Hessians to the ensemble,
which grows a layer when it has seen enough batches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import millrace as tf
from millrace.estimator.canned.dnn import check_features
from millrace.estimator.estimator import Estimator
from millrace.estimator.heads.classic import (
    _binary_logistic_head_with_sigmoid_cross_entropy_loss,
    _regression_head,
)
from millrace.estimator.mode_keys import ModeKeys
from millrace.feature_column.dense import IndicatorColumn
from millrace.feature_column.models import _transform_features
from millrace.feature_column.numeric import BucketizedColumn
from millrace.ops.boosted_trees import kernels
from millrace.ops.boosted_trees.tree_ensemble import TreeEnsemble

__all__ = [
    "BoostedTreesClassifier",
    "BoostedTreesEstimator",
    "BoostedTreesRegressor",
    "boosted_trees_classifier_train_in_memory",
    "boosted_trees_regressor_train_in_memory",
]

_PRUNING = {"none": 0, "pre": 1, "post": 2}
_MEAN = tf.losses.Reduction.SUM_OVER_BATCH_SIZE


class _Growth(NamedTuple):
    """The arguments that say how trees grow."""

    n_trees: int
    max_depth: int
    learning_rate: float
    l1: float
    l2: float
    tree_complexity: float
    min_node_weight: float
    center_bias: bool
    pruning_mode: str

    def check(self) -> None:
        """Raises ValueError if the pruning does not fit."""
        if self.pruning_mode not in _PRUNING:
            raise ValueError(f"pruning_mode mode must be one of: {', '.join(sorted(_PRUNING))}")
        if self.tree_complexity > 0 and self.pruning_mode == "none":
            raise ValueError("Tree complexity have no effect unless pruning mode is chosen.")
        if self.tree_complexity <= 0 and self.pruning_mode != "none":
            raise ValueError("For pruning, tree_complexity must be positive.")

    def attributes(self) -> dict[str, Any]:
        """The attributes of the op that grows."""
        found = self._asdict()
        del found["n_trees"], found["center_bias"]
        return {**found, "pruning_mode": _PRUNING[self.pruning_mode]}


def _bucketized(features: Any, columns: list[Any]) -> tuple[list[Any], list[int]]:
    """The bucket of every example in each feature, and how many buckets the feature has.

    Raises:
      ValueError: A column is neither bucketized nor an indicator, or has several dimensions.
    """
    for column in columns:
        if not isinstance(column, BucketizedColumn | IndicatorColumn):
            raise ValueError(
                f"Boosted trees take bucketized and indicator columns, got: {column}. Wrap a "
                "numeric column in tf.feature_column.bucketized_column, a categorical one in "
                "indicator_column."
            )
    transformed = _transform_features(features, columns)
    buckets: list[Any] = []
    sizes: list[int] = []
    for column in columns:
        if isinstance(column, BucketizedColumn):
            tensor = transformed[column]
            if tensor.shape.ndims != 2 or tensor.shape.as_list()[1] != 1:
                raise ValueError(
                    "For now, only supports features equivalent to rank 1 but column "
                    f"`{column.source_column.name}` got: {tensor.shape}"
                )
            buckets.append(tf.cast(tf.squeeze(tensor, axis=1), tf.int32))
            sizes.append(len(column.boundaries) + 1)
        else:
            found = tf.unstack(tf.cast(transformed[column], tf.int32), axis=1)
            buckets += found
            sizes += [2] * len(found)
    return buckets, sizes


class _StopWhenGrown(tf.train.SessionRunHook):
    """Stops training when all trees are grown, or growing was tried twice as often as needed."""

    def __init__(self, finished: Any, layers: Any, growth: _Growth) -> None:
        self._counts = [finished, layers]
        self._growth = growth

    def _is_over(self, finished: int, layers: int, within: int = 0) -> bool:
        trees = self._growth.n_trees
        most = 2 * trees * self._growth.max_depth
        return finished >= trees - within or layers > most - within

    def before_run(self, run_context: Any) -> Any:
        """Asks how far the ensemble is."""
        return tf.train.SessionRunArgs(self._counts)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops; near the end it looks again, for the step may have read before it grew."""
        finished, layers = run_values.results
        if self._is_over(finished, layers, within=1) and self._is_over(
            *run_context.session.run(self._counts)
        ):
            run_context.request_stop()


def _model_fn(
    features: Any, labels: Any, mode: str, head: Any, columns: list[Any], growth: _Growth,
    batches_per_layer: Any,
) -> Any:  # fmt: skip
    """The model function of boosted trees."""
    check_features(features)
    step = tf.train.get_or_create_global_step()
    ensemble = TreeEnsemble("boosted_trees")
    with tf.name_scope("boosted_trees/"):
        buckets, sizes = _bucketized(features, columns)
    with tf.colocate_with(ensemble.handle.op):
        if mode != ModeKeys.TRAIN:
            logits = kernels.BoostedTreesPredict(ensemble.handle, buckets, logits_dimension=1)
            return head.create_estimator_spec(
                features=features, mode=mode, labels=labels, logits=logits, train_op_fn=tf.no_op
            )
        stamp, logits, nodes = kernels.RouteThroughTrees(ensemble.handle, buckets)
        _, trees, finished, layers, _ = kernels.BoostedTreesGetEnsembleStates(ensemble.handle)
    for name, count in (
        ("num_trees", trees),
        ("num_finalized_trees", finished),
        ("num_attempted_layers", layers),
    ):
        tf.summary.scalar(f"ensemble/{name}", count)
    # TensorFlow's checkpoints hold both, the first for columns that are not bucketized yet.
    tf.Variable(True, trainable=False, name="boosted_trees/are_boundaries_ready")
    centering = tf.Variable(
        growth.center_bias, trainable=False, name="boosted_trees/center_bias_needed"
    )

    def grow(loss: Any) -> Any:
        (gradients,) = tf.gradients(loss, logits)
        (hessians,) = tf.gradients(gradients, logits)
        with tf.colocate_with(ensemble.handle.op):
            still_centering = kernels.GrowTreeLayer(
                ensemble.handle, stamp, centering, tf.cast(batches_per_layer, tf.int64), nodes,
                gradients, hessians, buckets, num_buckets=sizes, **growth.attributes(),
            )  # fmt: skip
        with tf.control_dependencies([centering.assign(still_centering)]):
            return step.assign_add(1).op

    spec = head.create_estimator_spec(
        features=features, mode=mode, labels=labels, logits=logits, train_op_fn=grow
    )
    hooks = (*spec.training_hooks, _StopWhenGrown(finished, layers, growth))
    return spec._replace(training_hooks=hooks)


class BoostedTreesEstimator(Estimator):
    """Boosted trees with a head of the program's own.

    Args:
      feature_columns: Bucketized and indicator columns.
      n_batches_per_layer: How many batches a layer is grown from.
      head: What the logit means; one logit.
      model_dir: The folder of checkpoints.
      weight_column: Weights belong to the head; only kept for its place.
      n_trees: How many trees to grow.
      max_depth: How many layers a tree has.
      learning_rate: How much of a leaf's best value it gets.
      l1_regularization: How far sums of gradients are moved towards zero.
      l2_regularization: What is added to sums of Hessians.
      tree_complexity: What a split must gain, with pruning.
      min_node_weight: The least sum of Hessians in a node that is split.
      config: A RunConfig.
      center_bias: Whether the first tree begins with the best constant.
      pruning_mode: "none", "pre" (do not split) or "post" (cut when the tree is done).
      quantile_sketch_epsilon: For columns that are not bucketized, which are refused.
    """

    def __init__(
        self,
        feature_columns: Any,
        n_batches_per_layer: Any,
        head: Any,
        model_dir: str | None = None,
        weight_column: Any = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: Any = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
    ) -> None:
        growth = _Growth(
            n_trees, max_depth, learning_rate, l1_regularization, l2_regularization,
            tree_complexity, min_node_weight, center_bias, pruning_mode,
        )  # fmt: skip
        growth.check()
        columns = sorted(feature_columns, key=lambda column: column.name)

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return _model_fn(features, labels, mode, head, columns, growth, n_batches_per_layer)

        super().__init__(model_fn=model_fn, model_dir=model_dir, config=config)


class BoostedTreesClassifier(BoostedTreesEstimator):
    """Boosted trees for yes or no; arguments are `BoostedTreesEstimator`'s and its head's."""

    def __init__(
        self,
        feature_columns: Any,
        n_batches_per_layer: Any,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: Any = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
        train_in_memory: bool = False,
    ) -> None:
        if n_classes != 2:
            raise ValueError(
                f"For now only binary classification is supported.n_classes given as {n_classes}"
            )
        head = _binary_logistic_head_with_sigmoid_cross_entropy_loss(
            weight_column=weight_column, label_vocabulary=label_vocabulary, loss_reduction=_MEAN
        )
        super().__init__(
            feature_columns, n_batches_per_layer, head, model_dir, weight_column, n_trees,
            max_depth, learning_rate, l1_regularization, l2_regularization, tree_complexity,
            min_node_weight, config, center_bias, pruning_mode, quantile_sketch_epsilon,
        )  # fmt: skip


class BoostedTreesRegressor(BoostedTreesEstimator):
    """Boosted trees for a number; arguments are `BoostedTreesEstimator`'s and its head's."""

    def __init__(
        self,
        feature_columns: Any,
        n_batches_per_layer: Any,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: Any = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
        train_in_memory: bool = False,
    ) -> None:
        if label_dimension != 1:
            raise ValueError(
                "For now only 1 dimension regression is supported."
                f"label_dimension given as {label_dimension}"
            )
        head = _regression_head(weight_column=weight_column, loss_reduction=_MEAN)
        super().__init__(
            feature_columns, n_batches_per_layer, head, model_dir, weight_column, n_trees,
            max_depth, learning_rate, l1_regularization, l2_regularization, tree_complexity,
            min_node_weight, config, center_bias, pruning_mode, quantile_sketch_epsilon,
        )  # fmt: skip


def _train_in_memory(
    kind: Any, train_input_fn: Any, feature_columns: Any, train_hooks: Any, options: dict[str, Any]
) -> Any:
    made = kind(feature_columns, n_batches_per_layer=1, **options)
    made.train(train_input_fn, hooks=train_hooks)
    return made


def boosted_trees_classifier_train_in_memory(
    train_input_fn: Any, feature_columns: Any, *, train_hooks: Any = None, **options: Any
) -> BoostedTreesClassifier:
    """A classifier trained on data of one batch: a layer per step.

    Args:
      train_input_fn: Gives the whole data in every batch.
      feature_columns: Bucketized and indicator columns.
      train_hooks: Hooks of the training.
      **options: The classifier's other arguments.
    """
    return _train_in_memory(  # type: ignore[no-any-return]
        BoostedTreesClassifier, train_input_fn, feature_columns, train_hooks, options
    )


def boosted_trees_regressor_train_in_memory(
    train_input_fn: Any, feature_columns: Any, *, train_hooks: Any = None, **options: Any
) -> BoostedTreesRegressor:
    """A regressor trained on data of one batch; see the classifier's."""
    return _train_in_memory(  # type: ignore[no-any-return]
        BoostedTreesRegressor, train_input_fn, feature_columns, train_hooks, options
    )
