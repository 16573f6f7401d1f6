"""Categorical columns that are made of others: with weights, and crossed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import millrace as tf
from millrace.feature_column.categorical import HashedCategoricalColumn
from millrace.feature_column.checks import check_number
from millrace.feature_column.column import (
    CategoricalColumn,
    IdWeightPair,
    OwnCategoricalColumn,
    _CategoricalColumn,
    num_buckets_of,
    parse_spec_of,
    sparse_tensors_of,
)
from millrace.feature_column.serialization import Configurable, register_feature_column
from millrace.feature_column.transformation import sparse_input

__all__ = [
    "CrossedColumn",
    "WeightedCategoricalColumn",
    "crossed_column",
    "weighted_categorical_column",
]


class _WeightedFields(NamedTuple):
    categorical_column: Any
    weight_feature_key: str
    dtype: Any


@register_feature_column
class WeightedCategoricalColumn(Configurable, OwnCategoricalColumn, _WeightedFields):
    """Ids whose weights are another feature."""

    @property
    def name(self) -> str:
        """Names both."""
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parents(self) -> list[Any]:
        """The ids and the weights."""
        return [self.categorical_column, self.weight_feature_key]

    @property
    def num_buckets(self) -> int:
        """That of the ids."""
        return num_buckets_of(self.categorical_column)

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the ids, and the weights.

        Raises:
          ValueError: The ids are made of the same feature.
        """
        spec = dict(parse_spec_of(self.categorical_column))
        if self.weight_feature_key in spec:
            raise ValueError(
                f"Parse config {spec[self.weight_feature_key]} already exists for "
                f"{self.weight_feature_key}."
            )
        spec[self.weight_feature_key] = tf.VarLenFeature(self.dtype)
        return spec

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The ids and the weights."""
        weights = transformation_cache.get(self.weight_feature_key, state_manager)
        if weights is None:
            raise ValueError(f"Missing weights {self.weight_feature_key}.")
        weights = tf.convert_to_tensor_or_sparse_tensor(weights)
        if self.dtype != weights.dtype.base_dtype:
            raise ValueError(f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.")
        if not isinstance(weights, tf.SparseTensor):
            # A weight of zero is missing, so that indices agree with those of the ids.
            weights = sparse_input(weights, ignore_value=0.0)
        if not weights.dtype.is_floating:
            weights = tf.cast(weights, tf.float32)
        ids = transformation_cache.get(self.categorical_column, state_manager)
        return sparse_input(ids), weights

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> IdWeightPair:
        """The ids and the weights."""
        return IdWeightPair(*transformation_cache.get(self, state_manager))


class _CrossedFields(NamedTuple):
    keys: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None


@register_feature_column
class CrossedColumn(Configurable, OwnCategoricalColumn, _CrossedFields):
    """The hash bucket of each combination of several features' values."""

    @property
    def name(self) -> str:
        """Names all features, sorted."""
        return "_X_".join(sorted(getattr(key, "name", key) for key in self._leaves()))

    @property
    def parents(self) -> list[Any]:
        """What is crossed."""
        return list(self.keys)

    @property
    def num_buckets(self) -> int:
        """As many as were asked for."""
        return self.hash_bucket_size

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of all features."""
        return {name: spec for key in self.keys for name, spec in parse_spec_of(key).items()}

    def _leaves(self) -> Iterator[Any]:
        """What is crossed; crosses of crosses are taken apart."""
        for key in self.keys:
            if isinstance(key, CrossedColumn):
                yield from key._leaves()
            else:
                yield key

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The buckets."""
        values = []
        for key in self._leaves():
            if isinstance(key, str):
                values.append(transformation_cache.get(key, state_manager))
                continue
            pair = sparse_tensors_of(key, transformation_cache, state_manager)
            if pair.weight_tensor is not None:
                raise ValueError(
                    "crossed_column does not support weight_tensor, but the given column "
                    f"populates weight_tensor. Given column: {key.name}"
                )
            values.append(pair.id_tensor)
        return tf.sparse.cross_hashed(
            inputs=values, num_buckets=self.hash_bucket_size, hash_key=self.hash_key
        )


def weighted_categorical_column(
    categorical_column: Any, weight_feature_key: str, dtype: Any = tf.float32
) -> WeightedCategoricalColumn:
    """Weights for the ids of a column.

    Args:
      categorical_column: The ids.
      weight_feature_key: The feature that has the weights, one for each id.
      dtype: Their type.

    Raises:
      ValueError: `dtype` is no number.
    """
    check_number(dtype, f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, dtype)


def crossed_column(keys: Any, hash_bucket_size: int, hash_key: int | None = None) -> CrossedColumn:
    """Combinations of values of several features, hashed into buckets.

    Args:
      keys: Features (of texts) or categorical columns, at least two. A column with hash buckets
        would be hashed twice: name the feature instead.
      hash_bucket_size: How many buckets.
      hash_key: Starts the hashes; TensorFlow's own by default.

    Raises:
      ValueError: Fewer than two keys, no positive number of buckets, or something else among
        the keys.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, str | CategoricalColumn | _CategoricalColumn):
            raise ValueError(
                "Unsupported key type. All keys must be either string, or categorical column "
                f"except HashedCategoricalColumn. Given: {key}"
            )
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing "
                "before crossing will increase probability of collision. Instead, use the "
                f"feature name as a string. Given: {key}"
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)
