"""Checks and small conversions of tensors that `tf.contrib.framework` offers."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras.engine.naming import constant_value as smart_constant_value
from millrace.keras.engine.naming import smart_cond

__all__ = [
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_scalar_int",
    "is_tensor",
    "reduce_sum_n",
    "remove_squeezable_dimensions",
    "smart_case",
    "smart_cond",
    "smart_constant_value",
    "with_same_shape",
    "with_shape",
]


def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor, sparse tensor or variable."""
    return isinstance(x, tf.Tensor | tf.SparseTensor | tf.Variable)


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Any:
    """`tensor`, whose static shape is checked to be a scalar's.

    Raises:
      ValueError: It is not.
    """
    with tf.name_scope(name, "assert_scalar", [tensor]) as scope:
        tensor = tf.convert_to_tensor(tensor, name=f"{scope}_tensor" if name else None)
        if tensor.shape.ndims != 0:
            raise ValueError(
                f"{message or ''}Expected scalar shape for {tensor.name}, "
                f"saw shape: {tensor.shape}."
            )
        return tensor


def assert_scalar_int(tensor: Any, name: str | None = None) -> Any:
    """`tensor`, checked to be a scalar of int32 or int64.

    Raises:
      ValueError: It is not.
    """
    with tf.name_scope(name, "assert_scalar_int", [tensor]):
        tensor = tf.convert_to_tensor(tensor)
        if tensor.dtype.base_dtype not in (tf.int32, tf.int64):
            raise ValueError(
                f"Expected int32 or int64 type for {tensor.name}, saw type: {tensor.dtype}."
            )
        return assert_scalar(tensor)


def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> Any:
    """The floating-point type that all tensors share.

    Raises:
      ValueError: They differ, or it is none.
    """
    expected = None if dtype is None else tf.as_dtype(dtype)
    for tensor in tensors or ():
        if tensor is None:
            continue
        kind = tensor.dtype.base_dtype
        if expected is None:
            expected = kind
        elif expected != kind:
            raise ValueError(f"{tensor.name}: expected type {expected.name}, got {kind.name}.")
    expected = expected or tf.float32
    if not expected.is_floating:
        raise ValueError(f"Expected floating point type, got {expected.name}.")
    return expected


def with_shape(expected_shape: Any, tensor: Any) -> Any:
    """`tensor`, whose shape is checked: now where it is known, else in the step.

    Raises:
      ValueError: The static shapes cannot be the same.
    """
    if isinstance(tensor, tf.SparseTensor):
        raise ValueError("SparseTensor not supported.")
    static = expected_shape
    if isinstance(expected_shape, tf.Tensor):
        value = tf.get_static_value(expected_shape)
        if value is None:
            equal = tf.reduce_all(tf.equal(tf.shape(tensor), tf.cast(expected_shape, tf.int32)))
            check = tf.Assert(equal, ["Wrong shape.", expected_shape, tf.shape(tensor)])
            with tf.control_dependencies([check]):
                return tf.identity(tensor)
        static = list(value)
    if not tensor.shape.is_compatible_with(static):
        raise ValueError(
            f"Invalid shape for tensor {tensor.name}, expected {static}, got {tensor.shape}."
        )
    if not tensor.shape.is_fully_defined():
        check = tf.Assert(
            tf.reduce_all(tf.equal(tf.shape(tensor), static)),
            [f"Wrong shape for {tensor.name} [expected] [actual].", static, tf.shape(tensor)],
        )
        with tf.control_dependencies([check]):
            tensor = tf.identity(tensor)
        tensor.set_shape(static)
    return tensor


def with_same_shape(expected_tensor: Any, tensor: Any) -> Any:
    """`tensor`, whose shape is checked to be that of another."""
    with tf.name_scope(f"{tensor.op.name}/", values=[expected_tensor, tensor]):
        shape = expected_tensor.shape
        wanted = shape.as_list() if shape.is_fully_defined() else tf.shape(expected_tensor)
        return with_shape(wanted, tensor)


def remove_squeezable_dimensions(
    predictions: Any, labels: Any, name: str | None = None
) -> tuple[Any, Any]:
    """Both, without a last axis of size 1 that only one of them has."""
    with tf.name_scope(name, "remove_squeezable_dimensions", [predictions, labels]):
        predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
        ranks = predictions.shape.ndims, labels.shape.ndims
        if None not in ranks:
            if ranks[0] == ranks[1] + 1:
                predictions = tf.squeeze(predictions, [-1])
            elif ranks[1] == ranks[0] + 1:
                labels = tf.squeeze(labels, [-1])
        return predictions, labels


def reduce_sum_n(tensors: Any, name: str | None = None) -> Any:
    """The sum of all elements of all tensors.

    Raises:
      ValueError: There are none.
    """
    if not tensors:
        raise ValueError("No tensors provided.")
    with tf.name_scope(name, "reduce_sum_n", tensors) as scope:
        sums = [tf.reduce_sum(t, name=f"{t.op.name}/sum") for t in tensors]
        return sums[0] if len(sums) == 1 else tf.add_n(sums, name=scope)


def smart_case(
    pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, name: str = "smart_case"
) -> Any:
    """`tf.case`, without one where all conditions are known."""
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    known = [smart_constant_value(pred) for pred, _ in pairs]
    if None in known:
        return tf.case(pairs, default=default, exclusive=exclusive, name=name)
    for value, (_, function) in zip(known, pairs, strict=True):
        if value:
            return function()
    if default is None:
        raise ValueError("No condition of smart_case is true, and there is no default.")
    return default()
