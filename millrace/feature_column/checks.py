"""Checks of what columns are told, with TensorFlow's sentences."""

from __future__ import annotations

from typing import Any

import millrace as tf


def check_key(key: Any) -> None:
    """Raises ValueError if a feature's key is no text."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")


def check_text_or_integer(dtype: Any, prefix: str) -> None:
    """Raises ValueError if `dtype` is neither string nor an integer type."""
    if dtype != tf.string and not dtype.is_integer:
        raise ValueError(f"{prefix} dtype must be string or integer. dtype: {dtype}.")


def check_number(dtype: Any, message: str) -> None:
    """Raises ValueError if `dtype` is no integer or floating type."""
    if dtype is None or not (dtype.is_integer or dtype.is_floating):
        raise ValueError(message)


def checked_shape(shape: Any, key: Any) -> tuple[int, ...]:
    """A column's shape as a tuple of positive integers."""
    if shape is None:
        raise AssertionError(f"The shape of column {key} must not be None.")
    if not tf.nest.is_nested(shape):
        shape = [shape]
    for dimension in shape:
        if not isinstance(dimension, int):
            raise TypeError(f"shape dimensions must be integer. shape: {tuple(shape)}, key: {key}")
        if dimension < 1:
            raise ValueError(
                f"shape dimensions must be greater than 0. shape: {tuple(shape)}, key: {key}"
            )
    return tuple(shape)


def checked_default(shape: tuple[int, ...], value: Any, dtype: Any, key: Any) -> Any:
    """A numeric column's default value as nested tuples of its shape; None stays None."""
    if value is None:
        return None
    if isinstance(value, int) or (isinstance(value, float) and dtype.is_floating):
        return _filled(shape, value)
    if callable(getattr(value, "tolist", None)):
        value = value.tolist()
    if tf.nest.is_nested(value):
        if not _has_shape(value, shape):
            raise ValueError(
                "The shape of default_value must be equal to given shape. "
                f"default_value: {value}, shape: {shape}, key: {key}"
            )
        leaves = tf.nest.flatten(value)
        whole = all(isinstance(leaf, int) for leaf in leaves)
        if whole or (dtype.is_floating and any(isinstance(leaf, float) for leaf in leaves)):
            return _tuples(value)
    raise TypeError(
        "default_value must be compatible with dtype. "
        f"default_value: {value}, dtype: {dtype}, key: {key}"
    )


def _filled(shape: tuple[int, ...], value: Any) -> Any:
    return (_filled(shape[1:], value),) * shape[0] if shape else value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if tf.nest.is_nested(value) else value


def _has_shape(value: Any, shape: tuple[int, ...]) -> bool:
    if tf.nest.is_nested(value) != bool(shape):
        return False
    return not shape or (
        len(value) == shape[0] and all(_has_shape(each, shape[1:]) for each in value)
    )
