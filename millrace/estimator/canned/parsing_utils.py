"""What `tf.parse_example` is to be told for a canned model: its features, label and weight."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.feature_column.numeric import NumericColumn

__all__ = ["classifier_parse_example_spec", "regressor_parse_example_spec"]


def _with_label(spec: dict[str, Any], key: str, label: Any, weight_column: Any) -> dict[str, Any]:
    if key in spec:
        raise ValueError(
            f"label should not be used as feature. label_key: {key}, features: {spec.keys()}"
        )
    spec[key] = label
    if weight_column is None:
        return spec
    if isinstance(weight_column, str):
        weight_column = tf.feature_column.numeric_column(weight_column)
    if not isinstance(weight_column, NumericColumn):
        raise ValueError(
            "weight_column should be an instance of tf.feature_column.numeric_column. "
            f"Given type: {type(weight_column)} value: {weight_column}"
        )
    if weight_column.key in spec:
        raise ValueError(
            "weight_column should not be used as feature. "
            f"weight_column: {weight_column.key}, features: {spec.keys()}"
        )
    spec.update(weight_column.parse_example_spec)
    return spec


def classifier_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = tf.int64,
    label_default: Any = None,
    weight_column: Any = None,
) -> dict[str, Any]:
    """The spec of a classifier's examples.

    Args:
      feature_columns: The model's columns.
      label_key: The feature that is the label.
      label_dtype: Its type.
      label_default: For examples without one.
      weight_column: A feature's key or a numeric column.

    Raises:
      ValueError: The label or the weight is a feature, too.
    """
    spec = tf.feature_column.make_parse_example_spec(feature_columns)
    label = tf.FixedLenFeature((1,), label_dtype, label_default)
    return _with_label(spec, label_key, label, weight_column)


def regressor_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = tf.float32,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: Any = None,
) -> dict[str, Any]:
    """The spec of a regressor's examples: `classifier_parse_example_spec` for numbers."""
    spec = tf.feature_column.make_parse_example_spec(feature_columns)
    label = tf.FixedLenFeature((label_dimension,), label_dtype, label_default)
    return _with_label(spec, label_key, label, weight_column)
