"""Checks of labels, logits, weights and loss functions, with TensorFlow's sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.feature_column.column import DenseColumn, _DenseColumn
from millrace.feature_column.transformation import _LazyBuilder
from millrace.platform.function_arguments import fn_args


def dense_labels(labels: Any, logits: Any, dimension: int) -> Any:
    """Labels as ``[batch, dimension]``.

    Raises:
      ValueError: There are none, they are sparse, or their last dimension is another.
    """
    if labels is None:
        raise ValueError(
            "You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: "
            "Check that your data contain your label feature. Check that your input_fn properly "
            "parses and returns labels."
        )
    with tf.name_scope(None, "labels", (labels, logits)) as scope:
        labels = tf.convert_to_tensor_or_sparse_tensor(labels)
        if isinstance(labels, tf.SparseTensor):
            raise ValueError(
                "SparseTensor labels are not supported. labels must be a Tensor of shape "
                f"[D0, D1, ..., DN, {dimension}], e.g. [batch_size, {dimension}]. Suggested Fix "
                "(1): Check the label feature in your data. Each example must contain "
                f"{dimension} value(s). If not, your choice of label was probably incorrect. "
                "Suggested Fix (2): In your input_fn, use tf.sparse_tensor_to_dense() to turn "
                "labels into a Tensor."
            )
        ranks = labels.shape.ndims, logits.shape.ndims
        if None not in ranks and ranks[0] == ranks[1] - 1:
            labels = tf.expand_dims(labels, -1)
        shape, logits_shape = tf.shape(labels), tf.shape(logits)
        message = (
            f"labels shape must be [D0, D1, ... DN, {dimension}]. Suggested Fix: check your "
            "n_classes argument to the estimator and/or the shape of your label."
        )
        with tf.control_dependencies([tf.assert_rank_at_least(labels, 2, message=message)]):
            last = labels.shape.as_list()[-1] if labels.shape.ndims else None
            if last is not None and last != dimension:
                raise ValueError(
                    f"Mismatched label shape. Expected labels dimension={dimension}.  Received "
                    f"{last}. Suggested Fix:If your classifier expects one-hot encoding label,"
                    "check your n_classes argument to the estimator and/or the shape of your "
                    "label. Otherwise, check the shape of your label."
                )
            wanted = tf.concat([logits_shape[:-1], [dimension]], axis=0)
            same = tf.assert_equal(
                wanted,
                shape,
                message=message,
                data=["expected_labels_shape: ", wanted, "labels_shape: ", shape],
            )
            with tf.control_dependencies([same]):
                return tf.identity(labels, name=scope)


def checked_logits(logits: Any, dimension: int) -> Any:
    """Logits as float32, whose last dimension is `dimension`.

    Raises:
      ValueError: It is another.
    """
    with tf.name_scope(None, "logits", (logits,)) as scope:
        logits = tf.cast(logits, tf.float32)
        shape = tf.shape(logits)
        message = "logits shape must be [D0, D1, ... DN, logits_dimension"
        at_least = tf.assert_rank_at_least(logits, 2, data=[shape], message=f"{message}]")
        with tf.control_dependencies([at_least]):
            last = logits.shape.as_list()[-1] if logits.shape.ndims else None
            if last is not None:
                if isinstance(dimension, int) and last != dimension:
                    raise ValueError(f"{message}={dimension}], got {logits.shape}.")
                return logits
            same = tf.assert_equal(
                dimension, shape[-1], data=[shape], message=f"{message}={dimension}]"
            )
            with tf.control_dependencies([same]):
                return tf.identity(logits, name=scope)


def example_weights(features: Any, weight_column: Any, logits: Any, per_logit: bool = False) -> Any:
    """The weights of examples, ``[batch, 1]``; 1.0 without a column.

    Args:
      features: Tensors by key.
      weight_column: A feature's key, or a numeric column.
      logits: What the weights must fit.
      per_logit: Whether there may be a weight for each logit.

    Raises:
      TypeError: `weight_column` is something else.
      ValueError: Its values are no numbers.
    """
    shapes = "weights shape must be [D0, D1, ... DN] or [D0, D1, ... DN, 1]"
    if per_logit:
        shapes = (
            "weights shape must be [D0, D1, ... DN], [D0, D1, ... DN, 1] or "
            "[D0, D1, ... DN, logits_dimension]"
        )
    if weight_column is None:
        return 1.0
    with tf.name_scope(None, "weights", (*features.values(), logits)) as scope:
        if isinstance(weight_column, str):
            weight_column = tf.feature_column.numeric_column(key=weight_column, shape=(1,))
        if not isinstance(weight_column, DenseColumn | _DenseColumn):
            raise TypeError(
                "Weight column must be either a string or _DenseColumn. "
                f"Given type: {type(weight_column)}."
            )
        weights = weight_column._get_dense_tensor(_LazyBuilder(features))  # type: ignore[union-attr]
        if not (weights.dtype.is_floating or weights.dtype.is_integer):
            raise ValueError(
                f"Weight column should be castable to float. Given dtype: {weights.dtype}"
            )
        weights = tf.cast(weights, tf.float32, name="weights")
        shape = tf.shape(weights, name="weights_shape")
        logits_shape = tf.shape(logits, name="logits_shape")
        told = ["logits_shape: ", logits_shape, "weights_shape: ", shape]
        ranks = weights.shape.ndims, logits.shape.ndims
        if None not in ranks and ranks[0] == ranks[1] - 1:
            same = tf.assert_equal(logits_shape[:-1], shape, message=shapes, data=told)
            with tf.control_dependencies([same]):
                return tf.expand_dims(weights, -1, name=scope)
        wanted = tf.concat([logits_shape[:-1], [1]], axis=0)
        if per_logit:
            fits = [tf.reduce_all(tf.equal(each, shape)) for each in (logits_shape, wanted)]
            check = tf.Assert(tf.reduce_any(fits), [shapes, *told])
        else:
            check = tf.assert_equal(wanted, shape, message=shapes, data=told)
        with tf.control_dependencies([check]):
            return tf.identity(weights, name=scope)


def labels_in_range(labels: Any, classes: int, message: str | None = None) -> Any:
    """The labels, with a check that they are at least 0 and below `classes`."""
    with tf.name_scope(None, "assert_range", (labels,)):
        checks = (
            tf.assert_less_equal(
                labels,
                tf.convert_to_tensor(classes - 1, dtype=labels.dtype),
                message=message or "Labels must <= n_classes - 1",
            ),
            tf.assert_non_negative(labels, message=message or "Labels must >= 0"),
        )
        with tf.control_dependencies(checks):
            return tf.identity(labels)


def check_loss_fn(loss_fn: Callable[..., Any]) -> None:
    """Raises ValueError if a loss function does not take what heads give it."""
    args = fn_args(loss_fn)
    for required in ("labels", "logits"):
        if required not in args:
            raise ValueError(
                f"loss_fn must contain argument: {required}. Given arguments: {tuple(args)}"
            )
    unknown = sorted(set(args) - {"labels", "logits", "features", "loss_reduction"})
    if unknown:
        raise ValueError(f"loss_fn has unexpected args: {unknown}")


def called_loss_fn(
    loss_fn: Callable[..., Any], labels: Any, logits: Any, features: Any, dimension: int
) -> Any:
    """What a loss function gives, with a check that it is ``[batch, dimension]``."""
    options = {"features": features} if "features" in fn_args(loss_fn) else {}
    with tf.name_scope(None, "call_loss_fn", [labels, logits, *features.values()]):
        loss = loss_fn(labels=labels, logits=logits, **options)
        logits_shape = tf.shape(logits, name="logits_shape")
        wanted = tf.concat([logits_shape[:-1], [dimension]], 0, name="expected_loss_shape")
        shape = tf.shape(loss, name="loss_shape")
        check = tf.Assert(
            tf.reduce_all(tf.equal(shape, wanted)),
            data=[
                f"loss_fn must return Tensor of shape [D0, D1, ... DN, {dimension}]. ",
                "logits_shape: ",
                logits_shape,
                "loss_shape: ",
                shape,
            ],
            name="check_loss_shape",
        )
        with tf.control_dependencies([check]):
            return tf.identity(loss)


def check_vocabulary(vocabulary: Any, error: type[Exception] = ValueError) -> None:
    """Raises an error if a label vocabulary is no list."""
    if vocabulary is not None and not isinstance(vocabulary, list | tuple):
        raise error(f"label_vocabulary should be a list or a tuple. Given type: {type(vocabulary)}")


def checked_thresholds(thresholds: Any) -> tuple[float, ...]:
    """Thresholds as a tuple; each must be a probability other than 0 and 1."""
    checked: tuple[float, ...] = tuple(thresholds or ())
    if any(not 0.0 < each < 1.0 for each in checked):
        raise ValueError(f"thresholds not in (0, 1): {(checked,)}.")
    return checked
