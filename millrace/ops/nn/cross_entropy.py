"""Cross-entropies of logits: softmax, sparse softmax, logistic, Poisson.

TensorFlow 0.x took ``(logits, labels)`` by position; 1.x demanded keywords and refused
positions, so a positional call can only mean the 0.x order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies, name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext, broadcast_shapes
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.array import slicing as array_slicing
from millrace.ops.control_flow import checks
from millrace.ops.math import arithmetic, elementwise, numeric, reduction
from millrace.ops.math.broadcasting import can_broadcast, shape_text
from millrace.ops.nn import activation, softmax

__all__ = [
    "log_poisson_loss",
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "sparse_softmax_cross_entropy_with_logits",
    "weighted_cross_entropy_with_logits",
]

_FLOATS = "{float16, bfloat16, float32, float64}"


# -- Op types ----------------------------------------------------------------------------


def _rank_2(shape: TensorShape) -> TensorShape:
    if shape.ndims is None:
        return unknown_shape(2)
    if shape.ndims != 2:
        raise ValueError(f"Shape must be rank 2 but is rank {shape.ndims}")
    return shape


def _dense_shape(c: ShapeContext) -> list[TensorShape]:
    both = _rank_2(broadcast_shapes(c.shape(0), c.shape(1)))
    return [both[:1], both]


@op(
    "SoftmaxCrossEntropyWithLogits(features: T, labels: T) -> (loss: T, backprop: T) "
    f"where T: {_FLOATS}",
    shape=_dense_shape,
)
def SoftmaxCrossEntropyWithLogits(features: Any, labels: Any, *, xp: Any) -> Any:
    """The loss of each row, and its derivative by the logits."""
    if not can_broadcast(features.shape, labels.shape):
        raise ValueError(
            "logits and labels must be broadcastable: "
            f"logits_size={shape_text(features.shape)} labels_size={shape_text(labels.shape)}"
        )
    features, labels = xp.broadcast_arrays(features, labels)
    if features.ndim != 2:
        raise ValueError(
            "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional"
        )
    shifted = softmax.shifted_logits(features, xp)
    powers = xp.exp(shifted)
    total = xp.sum(powers, axis=-1, keepdims=True)
    loss = xp.sum(labels * (xp.log(total) - shifted), axis=-1)
    return loss, powers / total - labels


@SoftmaxCrossEntropyWithLogits.gradient
def _(op: Operation, grad_loss: Any, grad_backprop: Any) -> Any:
    logits = op.inputs[0]
    grad = array_shape.expand_dims(grad_loss, -1) * op.outputs[1]
    grad = _add_second_order(grad, grad_backprop, logits)
    by_labels = -softmax.log_softmax(logits)
    return grad, array_shape.expand_dims(grad_loss, -1) * by_labels


def _add_second_order(grad: Any, grad_backprop: Any, logits: Tensor) -> Any:
    """Adds what flows through the second output: the derivative of the softmax itself."""
    if grad_backprop is None or grad_backprop.op.type in ("ZerosLike", "Zeros"):
        return grad
    y: Any = softmax.softmax(logits)
    inner: Any = reduction.reduce_sum(grad_backprop * y, -1, keepdims=True)
    return grad + (grad_backprop - inner) * y


def _sparse_shape(c: ShapeContext) -> list[TensorShape]:
    features, labels = c.shape("features"), c.shape("labels")
    if features.ndims not in (None, 2):
        raise ValueError(f"Shape must be rank 2 but is rank {features.ndims}")
    if labels.ndims not in (None, 1):
        raise ValueError(f"Shape must be rank 1 but is rank {labels.ndims}")
    rows = features.sizes[0] if features.sizes else None
    count = labels.sizes[0] if labels.sizes else None
    if rows is not None and count is not None and rows != count:
        raise ValueError(f"Dimensions must be equal, but are {rows} and {count}")
    rows = rows if rows is not None else count
    classes = features.sizes[1] if features.sizes else None
    return [TensorShape([rows]), TensorShape([rows, classes])]


@op(
    "SparseSoftmaxCrossEntropyWithLogits(features: T, labels: Tlabels) -> (loss: T, backprop: T) "
    f"where T: {_FLOATS}; Tlabels: index = int64",
    shape=_sparse_shape,
)
def SparseSoftmaxCrossEntropyWithLogits(features: Any, labels: Any, *, check: Any, xp: Any) -> Any:
    """As the dense form, with the number of the right class of each row for labels."""
    if features.ndim != 2 or labels.ndim != 1 or features.shape[0] != labels.shape[0]:
        raise ValueError(
            "logits and labels must have the same first dimension, got logits shape "
            f"{shape_text(features.shape)} and labels shape {shape_text(labels.shape)}"
        )
    classes = features.shape[1]
    features, labels = xp.asarray(features), xp.asarray(labels)
    check(
        xp.all((labels >= 0) & (labels < classes)),
        lambda found: _label_out_of_range(found, classes),
        labels,
    )
    shifted = softmax.shifted_logits(features, xp)
    powers = xp.exp(shifted)
    total = xp.sum(powers, axis=-1, keepdims=True)
    places = xp.clip(labels, 0, max(classes - 1, 0))[:, None]
    chosen = xp.take_along_axis(shifted, places, axis=1)
    is_label = xp.arange(classes, dtype=labels.dtype) == labels[:, None]
    loss = (xp.log(total) - chosen)[:, 0]
    return loss, powers / total - is_label.astype(features.dtype)


def _label_out_of_range(labels: np.ndarray, classes: int) -> str:
    wrong = labels[(labels < 0) | (labels >= classes)][0]
    return (
        f"Received a label value of {wrong} which is outside the valid range of [0, {classes}).  "
        f"Label values: {' '.join(str(label) for label in labels[:100])}"
    )


@SparseSoftmaxCrossEntropyWithLogits.gradient
def _(op: Operation, grad_loss: Any, grad_backprop: Any) -> Any:
    grad = array_shape.expand_dims(grad_loss, -1) * op.outputs[1]
    return _add_second_order(grad, grad_backprop, op.inputs[0]), None


# -- Public functions --------------------------------------------------------------------


def _sort_arguments(
    function: str, positional: tuple[Any, ...], labels: Any, logits: Any, extra: int
) -> tuple[Any, Any, tuple[Any, ...]]:
    """Labels, logits and further positional arguments of a call in either style."""
    if positional and positional[0] is None:  # 1.x's guard against positions, passed by name
        positional = positional[1:]
    if len(positional) > 2 + extra:
        raise TypeError(f"{function}() got {len(positional)} positional arguments")
    if positional:
        if logits is not None:
            raise TypeError(f"{function}() got multiple values for argument 'logits'")
        logits = positional[0]
    if len(positional) > 1:
        if labels is not None:
            raise TypeError(f"{function}() got multiple values for argument 'labels'")
        labels = positional[1]
    if labels is None or logits is None:
        raise ValueError(
            f"Both `labels` and `logits` must be provided for {function}. "
            f"Received: labels={labels} and logits={logits}"
        )
    return labels, logits, positional[2:]


def softmax_cross_entropy_with_logits(
    *positional: Any,
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
    _sentinel: Any = None,
) -> Tensor:
    """Softmax cross-entropy whose gradient does not flow into the labels.

    Args:
      *positional: TensorFlow 0.x's order: ``logits, labels, dim, name``.
      labels: Rows of probabilities, in the shape of `logits`.
      logits: Unscaled log probabilities.
      dim: The axis of the classes.
      name: The name scope.
      axis: The newer name of `dim`.

    Returns:
      The loss of each row: the shape of `logits` without the axis of the classes.
    """
    labels, logits, rest = _sort_arguments(
        "softmax_cross_entropy_with_logits", positional, labels, logits, extra=2
    )
    dim = rest[0] if rest else (axis if axis is not None else dim)
    name = rest[1] if len(rest) > 1 else name
    with name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as scope:
        labels = array_identity.stop_gradient(labels, name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits_v2(labels, logits, axis=dim, name=scope)


def softmax_cross_entropy_with_logits_v2(
    labels: Any,
    logits: Any,
    axis: int | None = None,
    name: str | None = None,
    dim: int | None = None,
) -> Tensor:
    """Softmax cross-entropy with gradients for logits and labels.

    Args:
      labels: Rows of probabilities, in the shape of `logits`.
      logits: Unscaled log probabilities.
      axis: The axis of the classes, the last by default.
      name: The name scope.
      dim: The old name of `axis`.
    """
    if axis is not None and dim is not None:
        raise ValueError("Cannot specify both 'dim' and 'axis'.")
    chosen = axis if axis is not None else dim
    chosen = -1 if chosen is None else chosen
    with name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, name="labels")
        small = logits.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
        precise: Tensor = cast.cast(logits, dtypes.float32) if small else logits
        labels = cast.cast(labels, precise.dtype.base_dtype)
        rank = array_shape.rank(precise)
        shape = precise.shape
        if chosen not in (-1, (shape.ndims or 0) - 1):
            precise = array_layout.transpose(precise, _last(precise, chosen))
            labels = array_layout.transpose(labels, _last(labels, chosen))
        sizes = array_shape.shape(precise)
        loss, _ = SoftmaxCrossEntropyWithLogits(_rows(precise), _rows(labels), name=scope)
        outer = array_slicing.slice(sizes, [0], [rank - 1])
        loss = array_shape.reshape(loss, outer)
        if shape.sizes is not None:
            kept = list(shape.sizes)
            del kept[chosen]
            loss.set_shape(kept)
        return cast.cast(loss, logits.dtype.base_dtype) if small else loss


def _last(tensor: Tensor, axis: int) -> Any:
    """The permutation that moves an axis to the end."""
    rank = tensor.shape.ndims
    if rank is None:
        count: Any = array_shape.rank(tensor)
        place: Any = axis if axis >= 0 else count + axis
        return array_join.concat(
            [numeric.range(place), numeric.range(place + 1, count), [place]], 0
        )
    axis %= rank
    return [i for i in range(rank) if i != axis] + [axis]


def _rows(tensor: Tensor) -> Tensor:
    """All axes but the last joined into one."""
    rank: Any = array_shape.rank(tensor)
    classes = array_slicing.slice(array_shape.shape(tensor), [rank - 1], [1])
    rows = array_shape.reshape(tensor, array_join.concat([[-1], classes], 0))
    if tensor.shape.sizes is not None:
        outer = tensor.shape[:-1].num_elements()
        rows.set_shape([outer, tensor.shape.sizes[-1]])
    return rows


def sparse_softmax_cross_entropy_with_logits(
    *positional: Any,
    labels: Any = None,
    logits: Any = None,
    name: str | None = None,
    _sentinel: Any = None,
) -> Tensor:
    """Softmax cross-entropy where each row has one right class.

    Args:
      *positional: TensorFlow 0.x's order: ``logits, labels, name``.
      labels: Class numbers: the shape of `logits` without its last axis.
      logits: Unscaled log probabilities, classes along the last axis.
      name: The name scope.
    """
    labels, logits, rest = _sort_arguments(
        "sparse_softmax_cross_entropy_with_logits", positional, labels, logits, extra=1
    )
    name = rest[0] if rest else name
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels = convert_to_tensor(labels)
        logits = convert_to_tensor(logits)
        small = logits.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
        precise = cast.cast(logits, dtypes.float32) if small else logits
        label_rank, logit_rank = labels.shape.ndims, logits.shape.ndims
        if logit_rank == 0:
            raise ValueError(f"`logits` cannot be a scalar. Received logits={logits}`")
        if None not in (label_rank, logit_rank) and label_rank != logit_rank - 1:
            raise ValueError(
                "`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: "
                f"labels.shape={labels.shape} of rank {label_rank} and "
                f"logits.shape={logits.shape} of rank {logit_rank}"
            )
        if logit_rank is not None and not labels.shape.is_compatible_with(logits.shape[:-1]):
            raise ValueError(
                "`labels.shape` must equal `logits.shape` except for the last dimension. "
                f"Received: labels.shape={labels.shape} and logits.shape={logits.shape}"
            )
        if logit_rank == 2:
            loss, _ = SparseSoftmaxCrossEntropyWithLogits(
                precise, labels, name="SparseSoftmaxCrossEntropyWithLogits"
            )
        else:
            loss = _sparse_of_any_rank(labels, logits, precise)
        return cast.cast(loss, logits.dtype.base_dtype) if small else loss


def _sparse_of_any_rank(labels: Tensor, logits: Tensor, precise: Tensor) -> Tensor:
    shape = array_shape.shape(labels)
    guards = []
    if not (labels.shape.is_fully_defined() and logits.shape[:-1].is_fully_defined()):
        guards = [checks.assert_equal(array_shape.shape(labels), array_shape.shape(logits)[:-1])]
    with control_dependencies(guards):
        classes = array_shape.shape(precise)[array_shape.rank(precise) - 1]
        loss, _ = SparseSoftmaxCrossEntropyWithLogits(
            array_shape.reshape(precise, [-1, classes]),
            array_shape.reshape(labels, [-1]),
            name="SparseSoftmaxCrossEntropyWithLogits",
        )
        loss = array_shape.reshape(loss, shape)
        loss.set_shape(labels.shape)
        return loss


def sigmoid_cross_entropy_with_logits(
    *positional: Any,
    labels: Any = None,
    logits: Any = None,
    name: str | None = None,
    targets: Any = None,
    _sentinel: Any = None,
) -> Any:
    """Logistic cross-entropy of independent classes, element by element.

    Computed as ``max(x, 0) - x * z + log(1 + exp(-|x|))`` for logits x and labels z, which
    neither overflows nor loses the small differences.

    Args:
      *positional: TensorFlow 0.x's order: ``logits, targets, name``.
      labels: Probabilities, in the shape of `logits`.
      logits: Unscaled log odds.
      name: The name scope.
      targets: TensorFlow 0.x's name of `labels`.
    """
    labels, logits, rest = _sort_arguments(
        "sigmoid_cross_entropy_with_logits",
        positional,
        labels if labels is not None else targets,
        logits,
        extra=1,
    )
    name = rest[0] if rest else name
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        x: Any = convert_to_tensor(logits, name="logits")
        z = convert_to_tensor(labels, name="labels")
        _require_same_shape("logits", x, "labels", z)
        zeros = array_fill.zeros_like(x, dtype=x.dtype.base_dtype)
        is_positive = x >= zeros
        # Two selections instead of maximum and abs, whose gradients vanish at 0.
        relu = array_select.where(is_positive, x, zeros)
        negative_size = array_select.where(is_positive, -x, x)
        return arithmetic.add(
            relu - x * z, elementwise.log1p(elementwise.exp(negative_size)), name=scope
        )


def weighted_cross_entropy_with_logits(
    labels: Any = None,
    logits: Any = None,
    pos_weight: Any = None,
    name: str | None = None,
    targets: Any = None,
) -> Any:
    """Logistic cross-entropy in which errors on positive labels count `pos_weight` times.

    Args:
      labels: Probabilities, in the shape of `logits`.
      logits: Unscaled log odds.
      pos_weight: The weight of positive labels.
      name: The name scope.
      targets: The old name of `labels`.
    """
    if labels is not None and targets is not None:
        raise ValueError("Cannot specify both 'targets' and 'labels'.")
    labels = labels if labels is not None else targets
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        x: Any = convert_to_tensor(logits, name="logits")
        z: Any = convert_to_tensor(labels, name="labels")
        _require_same_shape("logits", x, "labels", z)
        weight: Any = 1 + (pos_weight - 1) * z
        soft: Any = elementwise.log1p(elementwise.exp(-elementwise.abs(x))) + activation.relu(-x)
        return arithmetic.add((1 - z) * x, weight * soft, name=scope)


def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None
) -> Any:
    """The negative log likelihood of Poisson counts, given the log of their expected values.

    Args:
      targets: The counts that were seen.
      log_input: The log of the expected counts.
      compute_full_loss: Whether Stirling's approximation of the constant term is added.
      name: The name scope.
    """
    with name_scope(name, "log_poisson_loss", [log_input, targets]):
        log_input = convert_to_tensor(log_input, name="log_input")
        z: Any = convert_to_tensor(targets, name="targets")
        _require_same_shape("log_input", log_input, "targets", z)
        loss = elementwise.exp(log_input) - log_input * z
        if compute_full_loss:
            dtype = z.dtype.base_dtype
            half = convert_to_tensor(0.5, dtype)
            two_pi = convert_to_tensor(2 * math.pi, dtype)
            stirling: Any = z * elementwise.log(z) - z + half * elementwise.log(two_pi * z)
            zeros, ones = array_fill.zeros_like(z), array_fill.ones_like(z)
            is_small = (z >= zeros) & (z <= ones)
            loss += array_select.where(is_small, zeros, stirling)
        return loss


def _require_same_shape(first: str, x: Tensor, second: str, y: Tensor) -> None:
    if not x.shape.is_compatible_with(y.shape):
        raise ValueError(
            f"`{first}` and `{second}` must have the same shape, received ({x.shape} vs {y.shape})."
        )
