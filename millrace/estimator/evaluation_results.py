"""Metrics of an evaluation, and where their values go: the log, and files for TensorBoard."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

import millrace as tf
from millrace.estimator.estimator_spec import LOSS_METRIC_KEY
from millrace.platform.training_end import is_watched


def write_results(output_dir: str, results: Mapping[str, Any], global_step: int) -> None:
    """Writes the values of metrics as summaries.

    A number becomes a scalar, bytes are taken for a serialized Summary, an array becomes a tensor.
    """
    words = (f"{k} = {v}" for k, v in sorted(results.items()) if not isinstance(v, bytes))
    line = f"Saving dict for global step {global_step}: {', '.join(words)}"
    tf.logging.info("%s", line)
    if is_watched() and tf.logging.get_verbosity() > tf.logging.INFO:
        print(line, file=sys.stderr, flush=True)  # the launcher shows it
    summary = tf.Summary()
    for key, value in results.items():
        if value is not None and key != tf.GraphKeys.GLOBAL_STEP:
            _add(summary, key, value)
    writer = tf.summary.FileWriterCache.get(output_dir)
    writer.add_summary(summary, global_step)
    writer.flush()


def _add(summary: Any, key: str, value: Any) -> None:
    if isinstance(value, float | np.float32 | int | np.int32 | np.int64):
        summary.value.add(tag=key, simple_value=value)
    elif isinstance(value, bytes):
        try:
            found = tf.Summary.FromString(value)
        except DecodeError:
            tf.logging.warning("Skipping summary for %s, cannot parse string to Summary.", key)
            return
        for number, each in enumerate(found.value):
            each.tag = f"{key}/{number}"
        summary.value.extend(found.value)
    elif isinstance(value, np.ndarray):
        summary.value.add(tag=key, node_name=key, tensor=tf.make_tensor_proto(value))
        tf.logging.info(
            "Summary for np.ndarray is not visible in Tensorboard by default. Consider using a "
            "Tensorboard plugin for visualization (see "
            "https://github.com/tensorflow/tensorboard-plugin-example/blob/master/README.md for "
            "more information)."
        )
    else:
        tf.logging.warning(
            "Skipping summary for %s, must be a float, np.float32, np.int64, np.int32 or int or "
            "np.ndarray or a serialized string of Summary.",
            key,
        )


def write_checkpoint_path(output_dir: str, checkpoint_path: str, global_step: int) -> None:
    """Notes which checkpoint was evaluated."""
    tf.logging.info(
        "Saving '%s' summary for global step %d: %s",
        "checkpoint_path",
        global_step,
        checkpoint_path,
    )
    summary = tf.Summary()
    summary.value.add(
        tag="checkpoint_path", tensor=tf.make_tensor_proto(checkpoint_path, dtype=tf.string)
    )
    writer = tf.summary.FileWriterCache.get(output_dir)
    writer.add_summary(summary, global_step)
    writer.flush()


def with_loss_metric(metrics: dict[str, Any], loss: Any) -> dict[str, Any]:
    """The metrics with the mean loss.

    Raises:
      ValueError: One is called like it.
    """
    if LOSS_METRIC_KEY in metrics:
        raise ValueError(
            f'Metric with name "{LOSS_METRIC_KEY}" is not allowed, because Estimator already '
            "defines a default metric with the same name."
        )
    metrics[LOSS_METRIC_KEY] = tf.metrics.mean(loss)
    return metrics


def updates_and_values(metrics: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """One operation that updates all metrics, and their values by name."""
    in_order = dict(sorted(metrics.items()))
    updates = [update for _, update in in_order.values()]
    values = {name: value for name, (value, _) in in_order.items()}
    return (tf.group(*updates) if updates else None), values
