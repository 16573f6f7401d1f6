"""Numeric columns, and their buckets."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import millrace as tf
from millrace.feature_column.checks import (
    check_key,
    check_number,
    checked_default,
    checked_shape,
)
from millrace.feature_column.column import (
    IdWeightPair,
    OwnCategoricalColumn,
    OwnDenseColumn,
    parse_spec_of,
)
from millrace.feature_column.serialization import Configurable, register_feature_column
from millrace.ops.math.numeric import Bucketize

__all__ = ["BucketizedColumn", "NumericColumn", "bucketized_column", "numeric_column"]


class _NumericFields(NamedTuple):
    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: Any
    normalizer_fn: Callable[[Any], Any] | None


@register_feature_column
class NumericColumn(Configurable, OwnDenseColumn, _NumericFields):
    """Numbers as they are."""

    @property
    def name(self) -> str:
        """The key."""
        return self.key

    @property
    def parents(self) -> list[Any]:
        """The key."""
        return [self.key]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """A feature of fixed length."""
        return {self.key: tf.FixedLenFeature(self.shape, self.dtype, self.default_value)}

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The normalized numbers, as float32."""
        numbers = transformation_cache.get(self.key, state_manager)
        if isinstance(numbers, tf.SparseTensor):
            raise ValueError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is "
                f"not supported. key: {self.key}"
            )
        if self.normalizer_fn is not None:
            numbers = self.normalizer_fn(numbers)
        return tf.cast(numbers, tf.float32)

    @property
    def variable_shape(self) -> Any:
        """The column's shape."""
        return tf.TensorShape(self.shape)

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The normalized numbers."""
        return transformation_cache.get(self, state_manager)


class _BucketizedFields(NamedTuple):
    source_column: Any
    boundaries: tuple[float, ...]


@register_feature_column
class BucketizedColumn(Configurable, OwnDenseColumn, OwnCategoricalColumn, _BucketizedFields):
    """Which bucket a number falls into: as one-hot vectors, or as ids."""

    @property
    def name(self) -> str:
        """Says what was put into buckets."""
        return f"{self.source_column.name}_bucketized"

    @property
    def parents(self) -> list[Any]:
        """The numbers."""
        return [self.source_column]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the numbers."""
        return parse_spec_of(self.source_column)

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The buckets, as integers."""
        numbers = transformation_cache.get(self.source_column, state_manager)
        return Bucketize(numbers, boundaries=list(self.boundaries))

    @property
    def variable_shape(self) -> Any:
        """A one-hot vector for each number."""
        return tf.TensorShape((*self.source_column.shape, len(self.boundaries) + 1))

    @property
    def num_buckets(self) -> int:
        """Each number has buckets of its own."""
        return int((len(self.boundaries) + 1) * self.source_column.shape[0])

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """One-hot vectors."""
        buckets = transformation_cache.get(self, state_manager)
        return tf.one_hot(
            indices=tf.cast(buckets, tf.int64),
            depth=len(self.boundaries) + 1,
            on_value=1.0,
            off_value=0.0,
        )

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> IdWeightPair:
        """An id for each number."""
        buckets = transformation_cache.get(self, state_manager)
        batch, width = tf.shape(buckets)[0], self.source_column.shape[0]
        rows = tf.reshape(tf.tile(tf.expand_dims(tf.range(0, batch), 1), [1, width]), (-1,))
        places = tf.tile(tf.range(0, width), [batch])
        ids = tf.reshape(buckets, (-1,)) + (len(self.boundaries) + 1) * places
        indices = tf.cast(tf.transpose(tf.stack((rows, places))), tf.int64)
        shape = tf.cast(tf.stack([batch, width]), tf.int64)
        return IdWeightPair(tf.SparseTensor(indices, ids, shape), None)


def numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = None,
    dtype: Any = tf.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:
    """Numbers of a feature.

    Args:
      key: The feature.
      shape: How many numbers an example has.
      default_value: For examples without the feature, when they are parsed; one number for all or
        as many as `shape` says.
      dtype: Their type when they are parsed.
      normalizer_fn: Applied to the tensor: ``lambda x: (x - 3.0) / 4.2``.

    Raises:
      TypeError: A dimension is no integer, the default does not fit the type, or `normalizer_fn`
        cannot be called.
      ValueError: A dimension is not positive, or the type is no number.
    """
    shape = checked_shape(shape, key)
    check_number(dtype, f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    default_value = checked_default(shape, default_value, dtype, key)
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    check_key(key)
    return NumericColumn(key, shape, default_value, dtype, normalizer_fn)


def bucketized_column(source_column: Any, boundaries: Any) -> BucketizedColumn:
    """Buckets of a numeric column: each includes its left boundary and excludes the right one.

    Args:
      source_column: A one-dimensional `numeric_column`.
      boundaries: A sorted list.

    Raises:
      ValueError: `source_column` is no such column, or `boundaries` no sorted list.
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(
            "source_column must be a column generated with numeric_column(). "
            f"Given: {source_column}"
        )
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    if not isinstance(boundaries, list | tuple) or any(
        left >= right for left, right in itertools.pairwise(boundaries)
    ):
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))
