"""Weights of examples: whether they broadcast to values, and how they are made to.

Losses and metrics accept weights that are a scalar, or have the rank of the values with each
dimension equal or 1. (NumPy's rule would accept more, and hide mistakes.)
"""

from __future__ import annotations

from typing import Any

from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies, name_scope
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill as array_fill
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import assertion, control_flow
from millrace.ops.math import arithmetic, comparison, reduction

__all__: list[str] = []

_REFUSAL = "weights can not be broadcast to values."


def assert_broadcastable(weights: Any, values: Any) -> Operation | None:
    """An operation that fails unless `weights` broadcast to `values`; None when they surely do.

    Raises:
      ValueError: Static shapes tell that they do not.
    """
    with name_scope(None, "assert_broadcastable", [weights, values]):
        weights = convert_to_tensor(weights, name="weights")
        values = convert_to_tensor(values, name="values")
        own, other = weights.shape.sizes, values.shape.sizes
        if own == ():
            return None
        if own is not None and other is not None:
            _check_ranks(weights, values)
            for axis, (size, wanted) in enumerate(zip(own, other, strict=True)):
                if size not in (1, None) and wanted is not None and size != wanted:
                    raise ValueError(
                        f"{_REFUSAL} Mismatch at dim {axis}. values.shape={values.shape}, "
                        f"weights.shape={weights.shape}. Received weights={weights}, "
                        f"values={values}"
                    )
            if all(s == 1 or (s is not None and s == w) for s, w in zip(own, other, strict=True)):
                return None
        return _assert_while_running(weights, values)


def _check_ranks(weights: Tensor, values: Tensor) -> None:
    if weights.shape.ndims != values.shape.ndims:
        raise ValueError(
            f"{_REFUSAL} values.rank={values.shape.ndims}. weights.rank={weights.shape.ndims}. "
            f"values.shape={values.shape}. weights.shape={weights.shape}. "
            f"Received weights={weights}, values={values}"
        )


def _assert_while_running(weights: Tensor, values: Tensor) -> Operation:
    """The same check on shapes that are known in the step (XLA's compiler does it, once)."""
    own: Any = array_shape.shape(weights, name="weights/shape")
    other: Any = array_shape.shape(values, name="values/shape")
    rank: Any = array_shape.rank(weights, name="weights/rank")
    value_rank: Any = array_shape.rank(values, name="values/rank")
    common = arithmetic.minimum(rank, value_rank)
    fits: Any = comparison.equal(own[:common], other[:common])
    fits = fits | comparison.equal(own[:common], 1)
    is_scalar: Any = comparison.equal(rank, 0, name="is_scalar")
    same_rank: Any = comparison.equal(rank, value_rank)
    is_valid = is_scalar | (same_rank & reduction.reduce_all(fits))
    return assertion.Assert(
        is_valid,
        [
            _REFUSAL,
            "weights.shape=",
            weights.name,
            own,
            "values.shape=",
            values.name,
            other,
            "is_scalar=",
            is_scalar,
        ],
        name="is_valid_shape",
    )


def guard(weights: Any, values: Any) -> list[Operation]:
    """Control inputs that hold back what uses `weights` until they are known to fit."""
    check = assert_broadcastable(weights, values)
    return [] if check is None else [check]


def broadcast_weights(weights: Any, values: Any) -> Any:
    """`weights` in the shape of `values`."""
    with name_scope(None, "broadcast_weights", [weights, values]) as scope:
        values = convert_to_tensor(values, name="values")
        weights = convert_to_tensor(weights, values.dtype.base_dtype, name="weights")
        if weights.shape.is_fully_defined() and weights.shape == values.shape:
            return weights
        with control_dependencies(guard(weights, values)):
            return arithmetic.multiply(weights, array_fill.ones_like(values), name=scope)


def remove_squeezable_dimensions(
    labels: Any, predictions: Any, expected_rank_diff: int = 0, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Drops a last dimension of size 1 from labels or predictions so that their ranks fit.

    Args:
      labels: The labels.
      predictions: The predictions.
      expected_rank_diff: ``rank(predictions) - rank(labels)`` that is wanted.
      name: The name scope.
    """
    with name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        predictions = convert_to_tensor(predictions)
        labels = convert_to_tensor(labels)
        if predictions.shape.ndims is not None and labels.shape.ndims is not None:
            difference = predictions.shape.ndims - labels.shape.ndims
            if difference == expected_rank_diff + 1 and _may_be_one(predictions):
                predictions = array_shape.squeeze(predictions, [-1])
            elif difference == expected_rank_diff - 1 and _may_be_one(labels):
                labels = array_shape.squeeze(labels, [-1])
            return labels, predictions
        rank_difference: Any = array_shape.rank(predictions) - array_shape.rank(labels)
        if predictions.shape.ndims is None or _may_be_one(predictions):
            predictions = _squeeze_if(
                comparison.equal(rank_difference, expected_rank_diff + 1), predictions
            )
        if labels.shape.ndims is None or _may_be_one(labels):
            labels = _squeeze_if(comparison.equal(rank_difference, expected_rank_diff - 1), labels)
        return labels, predictions


def _may_be_one(tensor: Tensor) -> bool:
    sizes = tensor.shape.sizes
    return bool(sizes) and sizes is not None and sizes[-1] in (1, None)


def _squeeze_if(condition: Tensor, tensor: Tensor) -> Tensor:
    known = constant_value(condition)
    if known is not None:
        return array_shape.squeeze(tensor, [-1]) if known else tensor
    return control_flow.cond(condition, lambda: array_shape.squeeze(tensor, [-1]), lambda: tensor)


def squeeze_weights(labels: Tensor, weights: Any) -> Any:
    """Drops a last dimension of size 1 from weights that have one more than the labels."""
    weights = convert_to_tensor(weights, name="weights")
    label_rank, weight_rank = labels.shape.ndims, weights.shape.ndims
    if label_rank is not None and weight_rank is not None:
        if weight_rank - label_rank == 1 and _may_be_one(weights):
            return array_shape.squeeze(weights, [-1])
        return weights
    if weight_rank == 0 or (weight_rank is not None and not _may_be_one(weights)):
        return weights
    difference: Any = array_shape.rank(weights) - array_shape.rank(labels)
    return _squeeze_if(comparison.equal(difference, 1), weights)
