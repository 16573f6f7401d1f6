"""Heads of several heads: one model, several objectives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.estimator.estimator_spec import EstimatorSpec
from millrace.estimator.export.export_output import PredictOutput
from millrace.estimator.heads.classic import LossSpec, _Head, summary_key, train_op_of
from millrace.estimator.heads.head import Head
from millrace.estimator.heads.keys import DEFAULT_SERVING_KEY, PREDICT_SERVING_KEY, MetricKeys
from millrace.estimator.mode_keys import ModeKeys

__all__ = ["MultiHead", "multi_head"]


def _checked(heads: Any, weights: Any) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    if not heads:
        raise ValueError(f"Must specify heads. Given: {heads}")
    if weights and len(weights) != len(heads):
        raise ValueError(
            "heads and head_weights must have the same size. "
            f"Given len(heads): {len(heads)}. Given len(head_weights): {len(weights)}."
        )
    for head in heads:
        if not head.name:
            raise ValueError(f"All given heads must have name specified. Given: {head}")
    return tuple(heads), tuple(weights or ())


def _by_head(heads: tuple[Any, ...], logits: Any) -> dict[str, Any]:
    """The logits of each head: given by name, or side by side."""
    if isinstance(logits, dict):
        missing = sorted({head.name for head in heads} - set(logits))
        if missing:
            raise ValueError(f"logits has missing values for head(s): {missing}")
        return logits
    with tf.name_scope(None, "split_logits", [logits]):
        logits = tf.convert_to_tensor(logits)
        sizes = [head.logits_dimension for head in heads]
        last = logits.shape.as_list()[-1]
        if last is not None and last != sum(sizes):
            raise ValueError(
                f"Could not split logits of shape {logits.shape.as_list()!r} among the heads with "
                f"individual logits dimensions: {sizes!r}. The last dimension of the logits "
                f"tensor should equal {sum(sizes)} but is {last}."
            )
        parts = tf.split(logits, sizes, axis=-1)
        return {head.name: part for head, part in zip(heads, parts, strict=True)}


def _labels_of(heads: tuple[Any, ...], labels: Any) -> None:
    if labels is None:
        return
    if not isinstance(labels, dict):
        raise ValueError(f"labels must be a dict. Given: {labels}")
    missing = sorted({head.name for head in heads} - set(labels))
    if missing:
        raise ValueError(f"labels has missing values for head(s): {missing}")


def _merged_loss(losses: list[Any], weights: tuple[float, ...]) -> Any:
    with tf.name_scope(None, "merge_losses", losses):
        if weights:
            losses = [loss * weight for loss, weight in zip(losses, weights, strict=True)]
        return tf.add_n(losses)


def _merged_outputs(heads: tuple[Any, ...], specs: list[Any]) -> dict[str, Any]:
    """What signatures serve: each head's under its name, and all predictions together."""
    first = specs[0].export_outputs
    if len(first) > 1 and DEFAULT_SERVING_KEY not in first:
        raise ValueError(
            f"{heads[0].name} did not specify default export_outputs. Given: {first} Suggested "
            "fix: Use one of the heads in tf.estimator, or include key "
            f"{DEFAULT_SERVING_KEY} in export_outputs."
        )
    merged = {DEFAULT_SERVING_KEY: first.get(DEFAULT_SERVING_KEY) or next(iter(first.values()))}
    predicted = {}
    for head, spec in zip(heads, specs, strict=True):
        for key, output in spec.export_outputs.items():
            own = head.name if key == DEFAULT_SERVING_KEY else f"{head.name}/{key}"
            merged[own] = output
            if key == PREDICT_SERVING_KEY and isinstance(output, PredictOutput):
                predicted.update({f"{head.name}/{k}": v for k, v in output.outputs.items()})
    merged[PREDICT_SERVING_KEY] = PredictOutput(predicted)
    return merged


class MultiHead(Head):
    """Several heads on the same or on different logits.

    Args:
      heads: Heads with names.
      head_weights: By how much the loss of each counts.
    """

    def __init__(self, heads: Any, head_weights: Any = None) -> None:
        self._heads, self._head_weights = _checked(heads, head_weights)

    @property
    def name(self) -> Any:
        """The names of the heads."""
        return "_".join(head.name for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        """The sum of those of the heads."""
        return sum(head.logits_dimension for head in self._heads)

    @property
    def loss_reduction(self) -> str:
        """That of the heads, which must be the same."""
        found = [head.loss_reduction for head in self._heads]
        if len(set(found)) > 1:
            raise ValueError(
                f"The loss_reduction must be the same for different heads. Given: {found}"
            )
        return str(found[0])

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        """The weighted sum of the heads' losses."""
        parts = _by_head(self._heads, logits)
        _labels_of(self._heads, labels)
        losses = [
            head.loss(labels[head.name], parts[head.name], features, mode) for head in self._heads
        ]
        total = _merged_loss(losses, self._head_weights)
        return total + tf.add_n(regularization_losses) if regularization_losses else total

    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        """Predictions by head and key."""
        parts = _by_head(self._heads, logits)
        with tf.name_scope("merge_pred"):
            return {
                (head.name, key): value
                for head in self._heads
                for key, value in head.predictions(parts[head.name]).items()
            }

    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """The losses of the heads; `update_metrics` adds their metrics."""
        means = {}
        if regularization_losses is not None:
            key = self._summary_key(MetricKeys.LOSS_REGULARIZATION)
            means[key] = tf.keras.metrics.Mean(name=MetricKeys.LOSS_REGULARIZATION)
        for head in self._heads:
            key = f"{MetricKeys.LOSS}/{head.name}"
            means[key] = tf.keras.metrics.Mean(name=key)
        return means

    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Any,
        logits: Any,
        labels: Any,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> dict[str, Any]:
        """Gives the metrics a batch, and returns them with those of the heads."""
        parts = _by_head(self._heads, logits)
        _labels_of(self._heads, labels)
        if regularization_losses is not None:
            key = self._summary_key(MetricKeys.LOSS_REGULARIZATION)
            eval_metrics[key].update_state(tf.add_n(regularization_losses))
        for head in self._heads:
            own, own_labels = parts[head.name], labels[head.name]
            loss = head.loss(own_labels, own, features)
            eval_metrics[f"{MetricKeys.LOSS}/{head.name}"].update_state(loss)
            eval_metrics.update(head.update_metrics(head.metrics(), features, own, own_labels))
        return eval_metrics

    def create_estimator_spec(
        self, features: Any, mode: str, logits: Any, labels: Any = None, *args: Any, **more: Any
    ) -> Any:
        """What a model_fn returns; the arguments are `Head`'s."""
        _labels_of(self._heads, labels)
        if mode != ModeKeys.PREDICT:
            return super().create_estimator_spec(features, mode, logits, labels, *args, **more)
        with tf.name_scope(self.name, "multi_head"):
            parts = _by_head(self._heads, logits)
            specs = [
                head.create_estimator_spec(features, mode, parts[head.name]) for head in self._heads
            ]
            return EstimatorSpec(
                mode,
                predictions=self.predictions(logits),
                export_outputs=_merged_outputs(self._heads, specs),
            )


class _ClassicMultiHead(_Head):
    """Several heads of the first generation."""

    def __init__(self, heads: Any, head_weights: Any) -> None:
        self._heads, self._head_weights = _checked(heads, head_weights)

    @property
    def name(self) -> Any:
        """The names of the heads."""
        return "_".join(head.name for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        """The sum of those of the heads."""
        return sum(head.logits_dimension for head in self._heads)

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> Any:
        """The merged loss; what it is made of, by head."""
        parts = _by_head(self._heads, logits)
        _labels_of(self._heads, labels)
        losses = {
            head.name: head.create_loss(features, mode, parts[head.name], labels[head.name])
            for head in self._heads
        }
        total = _merged_loss([s.training_loss for s in losses.values()], self._head_weights)
        return LossSpec(
            total,
            {name: spec.unreduced_loss for name, spec in losses.items()},
            {name: spec.weights for name, spec in losses.items()},
            {name: spec.processed_labels for name, spec in losses.items()},
        )

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        regularization_losses: Any = None,
    ) -> EstimatorSpec:
        """What a model_fn returns."""
        parts = _by_head(self._heads, logits)
        _labels_of(self._heads, labels)
        specs = [
            head.create_estimator_spec(
                features,
                mode,
                parts[head.name],
                labels=labels[head.name] if labels else None,
                train_op_fn=lambda loss: tf.no_op(),
            )
            for head in self._heads
        ]
        predictions = {
            (head.name, key): value
            for head, spec in zip(self._heads, specs, strict=True)
            for key, value in spec.predictions.items()
        }
        if mode == ModeKeys.PREDICT:
            outputs = _merged_outputs(self._heads, specs)
            return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
        total = _merged_loss([spec.loss for spec in specs], self._head_weights)
        penalty = tf.add_n(regularization_losses) if regularization_losses else None
        if penalty is not None:
            total = tf.add_n([total, penalty])
        if mode == ModeKeys.TRAIN:
            train_op = train_op_of(total, optimizer, train_op_fn)
            with tf.name_scope(""):
                tf.summary.scalar(MetricKeys.LOSS, total)
            return EstimatorSpec(mode, predictions=predictions, loss=total, train_op=train_op)
        metrics: dict[str, Any] = {}
        if penalty is not None:
            metrics[MetricKeys.LOSS_REGULARIZATION] = tf.metrics.mean(penalty)
        for head, spec in zip(self._heads, specs, strict=True):
            metrics[summary_key(head.name, MetricKeys.LOSS)] = tf.metrics.mean(spec.loss)
            metrics.update(spec.eval_metric_ops)
        return EstimatorSpec(mode, predictions=predictions, loss=total, eval_metric_ops=metrics)


def multi_head(heads: Any, head_weights: Any = None) -> _Head:
    """`tf.contrib.estimator`'s head of several heads.

    Args:
      heads: Heads of the first generation, with names.
      head_weights: By how much the loss of each counts.
    """
    return _ClassicMultiHead(heads, head_weights)
