"""Losses over a few sampled classes instead of all: sampled softmax and NCE."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.array import slicing as array_slicing
from millrace.ops.linalg import linear_algebra
from millrace.ops.math import comparison, elementwise, reduction
from millrace.ops.nn import candidate_sampling, cross_entropy, embedding

__all__ = ["nce_loss", "sampled_softmax_loss"]


def _row_sums(x: Any) -> Any:
    """The sum of each row, as a product with ones: that is never of an unknown rank."""
    ones = array_fill.ones(array_join.stack([array_shape.shape(x)[1], 1]), x.dtype.base_dtype)
    return array_shape.reshape(linear_algebra.matmul(x, ones), [-1])


def _sampled_logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Any,
    remove_accidental_hits: bool,
    partition_strategy: str,
    name: str | None,
    seed: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Logits of the true and of the sampled classes, and the labels that go with them."""
    with name_scope(name, "compute_sampled_logits", [inputs, labels]):
        labels = convert_to_tensor(labels)
        if labels.dtype.base_dtype != dtypes.int64:
            labels = cast.cast(labels, dtypes.int64)
        flat_labels = array_shape.reshape(labels, [-1])
        if sampled_values is None:
            sampled_values = candidate_sampling.log_uniform_candidate_sampler(
                true_classes=labels,
                num_true=num_true,
                num_sampled=num_sampled,
                unique=True,
                range_max=num_classes,
                seed=seed,
            )
        sampled, true_expected, sampled_expected = (
            array_identity.stop_gradient(convert_to_tensor(value)) for value in sampled_values
        )
        sampled = cast.cast(sampled, dtypes.int64)
        # One lookup for both, so that the table's gradient has one set of rows.
        all_ids = array_join.concat([flat_labels, sampled], 0)
        count: Any = array_shape.shape(flat_labels)[0]
        inputs = convert_to_tensor(inputs)
        all_weights = _lookup(weights, all_ids, partition_strategy, inputs)
        all_biases = _lookup(biases, all_ids, partition_strategy, inputs)
        true_weights = array_slicing.slice(all_weights, [0, 0], array_join.stack([count, -1]))
        sampled_weights = array_slicing.slice(all_weights, array_join.stack([count, 0]), [-1, -1])
        true_biases: Any = array_shape.reshape(
            array_slicing.slice(all_biases, [0], array_join.stack([count])), [-1, num_true]
        )
        sampled_biases = array_slicing.slice(all_biases, array_join.stack([count]), [-1])
        sampled_logits: Any = (
            linear_algebra.matmul(inputs, sampled_weights, transpose_b=True) + sampled_biases
        )
        width = array_shape.shape(true_weights)[1:2]
        each = array_shape.reshape(true_weights, array_join.concat([[-1, num_true], width], 0))
        products = array_shape.expand_dims(inputs, 1) * each
        rows = array_shape.reshape(products, array_join.concat([[-1], width], 0))
        true_logits: Any = array_shape.reshape(_row_sums(rows), [-1, num_true])
        true_logits = true_logits + true_biases
        if remove_accidental_hits:
            sampled_logits = sampled_logits + _hit_penalties(labels, sampled, sampled_logits)
        true_logits = true_logits - elementwise.log(true_expected)
        sampled_logits = sampled_logits - elementwise.log(sampled_expected)
        logits = array_join.concat([true_logits, sampled_logits], 1)
        out_labels = array_join.concat(
            [array_fill.ones_like(true_logits) / num_true, array_fill.zeros_like(sampled_logits)], 1
        )
        return logits, out_labels


def _lookup(table: Any, ids: Any, strategy: str, inputs: Tensor) -> Any:
    rows = embedding.embedding_lookup(table, ids, partition_strategy=strategy)
    same = rows.dtype.base_dtype == inputs.dtype.base_dtype
    return rows if same else cast.cast(rows, inputs.dtype.base_dtype)


def _hit_penalties(labels: Tensor, sampled: Tensor, logits: Tensor) -> Any:
    """The lowest float where a candidate is one of the row's true classes, else 0.

    TensorFlow's graphs take compute_accidental_hits and sparse_to_dense for it. A comparison
    gives the same numbers and stays in the XLA program.
    """
    equal = comparison.equal(
        array_shape.expand_dims(labels, 2), array_shape.reshape(sampled, [1, 1, -1])
    )
    is_hit = cast.cast(reduction.reduce_any(equal, 1), logits.dtype.base_dtype)
    lowest = convert_to_tensor(-np.finfo(np.float32).max, logits.dtype.base_dtype)
    return is_hit * lowest


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Any:
    """Noise-contrastive estimation: tells true classes from sampled ones.

    Args:
      weights: ``[num_classes, dim]``, or a list of parts of it, or a partitioned variable.
      biases: ``[num_classes]``.
      labels: ``[batch, num_true]`` of int64.
      inputs: ``[batch, dim]``.
      num_sampled: How many classes to sample for the batch.
      num_classes: How many there are.
      num_true: How many right classes an example has.
      sampled_values: What a candidate sampler returned; by default that of
        `log_uniform_candidate_sampler`.
      remove_accidental_hits: Whether sampled classes that are right do not count.
      partition_strategy: As for `embedding_lookup`.
      name: The name scope.

    Returns:
      The loss of each example.
    """
    logits, out_labels = _sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits,
        partition_strategy,
        name,
    )
    losses = cross_entropy.sigmoid_cross_entropy_with_logits(
        labels=out_labels, logits=logits, name="sampled_losses"
    )
    return _row_sums(losses)


def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Any:
    """Softmax cross-entropy over the true and some sampled classes, for training only.

    The arguments are those of `nce_loss`; `seed` is the sampler's.
    """
    logits, out_labels = _sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits,
        partition_strategy,
        name,
        seed,
    )
    out_labels = array_identity.stop_gradient(out_labels, name="labels_stop_gradient")
    return cross_entropy.softmax_cross_entropy_with_logits_v2(labels=out_labels, logits=logits)
