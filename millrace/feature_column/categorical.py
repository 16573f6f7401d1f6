"""Categorical columns of one feature: hash buckets, vocabularies, numbers as they are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import millrace as tf
from millrace.feature_column.checks import check_key, check_text_or_integer
from millrace.feature_column.column import OwnCategoricalColumn
from millrace.feature_column.serialization import Configurable, register_feature_column
from millrace.feature_column.transformation import sparse_input
from millrace.ops.lookup import vocabulary

__all__ = [
    "HashedCategoricalColumn",
    "IdentityCategoricalColumn",
    "VocabularyFileCategoricalColumn",
    "VocabularyListCategoricalColumn",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file",
    "categorical_column_with_vocabulary_file_v2",
    "categorical_column_with_vocabulary_list",
]


class _OneFeature(Configurable, OwnCategoricalColumn):
    """What columns of one feature share."""

    __slots__ = ()

    key: str
    dtype: Any

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
        """A feature of any length."""
        return {self.key: tf.VarLenFeature(self.dtype)}

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The ids."""
        feature = sparse_input(transformation_cache.get(self.key, state_manager))
        return self._ids(feature, state_manager)

    def _ids(self, feature: Any, state_manager: Any) -> Any:
        raise NotImplementedError

    def _check_type(self, feature: Any) -> None:
        check_text_or_integer(feature.dtype, f"column_name: {self.key} input_tensor")
        if self.dtype.is_integer != feature.dtype.is_integer:
            raise ValueError(
                "Column dtype and SparseTensors dtype must be compatible. "
                f"key: {self.key}, column dtype: {self.dtype}, tensor dtype: {feature.dtype}"
            )


class _HashedFields(NamedTuple):
    key: str
    hash_bucket_size: int
    dtype: Any


@register_feature_column
class HashedCategoricalColumn(_OneFeature, _HashedFields):
    """The hash bucket of each value."""

    @property
    def num_buckets(self) -> int:
        """As many as were asked for."""
        return self.hash_bucket_size

    def _ids(self, feature: Any, state_manager: Any) -> Any:
        self._check_type(feature)
        texts = feature.values
        if self.dtype != tf.string:
            texts = tf.as_string(texts)
        ids = tf.string_to_hash_bucket_fast(texts, self.hash_bucket_size, name="lookup")
        return tf.SparseTensor(feature.indices, ids, feature.dense_shape)


class _Vocabulary(_OneFeature):
    """Columns whose ids are places in a vocabulary."""

    __slots__ = ()

    def _ids(self, feature: Any, state_manager: Any) -> Any:
        self._check_type(feature)
        key_dtype = self.dtype
        if feature.dtype.is_integer:
            key_dtype = tf.int64
            feature = tf.cast(feature, tf.int64)
        return self._table(key_dtype, state_manager).lookup(feature)

    def _table(self, key_dtype: Any, state_manager: Any) -> Any:
        name = f"{self.key}_lookup"
        if state_manager is not None and state_manager.has_resource(self, name):
            return state_manager.get_resource(self, name)
        with tf.init_scope():
            table = self._new_table(key_dtype, name)
        if state_manager is not None:
            state_manager.add_resource(self, name, table)
        return table

    def _new_table(self, key_dtype: Any, name: str) -> Any:
        raise NotImplementedError


class _FileFields(NamedTuple):
    key: str
    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    dtype: Any
    default_value: int
    file_format: str | None = None


@register_feature_column
class VocabularyFileCategoricalColumn(_Vocabulary, _FileFields):
    """The line of each value in a file."""

    @property
    def num_buckets(self) -> int:
        """The lines, and the buckets for values that are not there."""
        return self.vocabulary_size + self.num_oov_buckets

    def _new_table(self, key_dtype: Any, name: str) -> Any:
        return vocabulary.index_table_from_file(
            vocabulary_file=self.vocabulary_file,
            num_oov_buckets=self.num_oov_buckets,
            vocab_size=self.vocabulary_size,
            default_value=self.default_value,
            key_dtype=key_dtype,
            name=name,
        )


class _ListFields(NamedTuple):
    key: str
    vocabulary_list: tuple[Any, ...]
    dtype: Any
    default_value: int
    num_oov_buckets: int


@register_feature_column
class VocabularyListCategoricalColumn(_Vocabulary, _ListFields):
    """The place of each value in a list."""

    @property
    def num_buckets(self) -> int:
        """The list's, and the buckets for values that are not there."""
        return len(self.vocabulary_list) + self.num_oov_buckets

    def _new_table(self, key_dtype: Any, name: str) -> Any:
        return vocabulary.index_table_from_tensor(
            self.vocabulary_list,
            default_value=self.default_value,
            num_oov_buckets=self.num_oov_buckets,
            dtype=key_dtype,
            name=name,
        )


class _IdentityFields(NamedTuple):
    key: str
    number_buckets: int
    default_value: int | None


@register_feature_column
class IdentityCategoricalColumn(_OneFeature, _IdentityFields):
    """Values that are ids."""

    @property
    def dtype(self) -> Any:
        """Always int64."""
        return tf.int64

    @property
    def num_buckets(self) -> int:
        """As many as were asked for."""
        return self.number_buckets

    def _ids(self, feature: Any, state_manager: Any) -> Any:
        if not feature.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {feature.dtype}")
        values = feature.values
        if values.dtype != tf.int64 or self.default_value is not None:
            values = tf.cast(values, tf.int64, name="values")
        if self.default_value is not None:
            limit = tf.cast(self.num_buckets, tf.int64, name="num_buckets")
            zero = tf.cast(0, tf.int64, name="zero")
            outside = tf.logical_or(values < zero, values >= limit, name="out_of_range")
            default = tf.cast(self.default_value, tf.int64)
            instead = tf.fill(tf.shape(values), default, name="default_values")
            values = tf.where_v2(outside, instead, values)
        return tf.SparseTensor(feature.indices, values, feature.dense_shape)


def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = tf.string
) -> HashedCategoricalColumn:
    """Values of a feature, hashed into buckets; integers are hashed as texts.

    Args:
      key: The feature.
      hash_bucket_size: How many buckets.
      dtype: The type of the values: string or an integer.

    Raises:
      ValueError: No positive number of buckets, or another type.
    """
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(
            f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}"
        )
    check_key(key)
    check_text_or_integer(dtype, f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, dtype)


def _check_buckets(num_oov_buckets: Any, has_default: bool, key: Any) -> None:
    if num_oov_buckets and has_default:
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    if num_oov_buckets and num_oov_buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = tf.string,
) -> VocabularyFileCategoricalColumn:
    """Values of a feature as lines of a file: `tf.feature_column`'s order of arguments in V1."""
    return categorical_column_with_vocabulary_file_v2(
        key, vocabulary_file, vocabulary_size, dtype, default_value, num_oov_buckets
    )


def categorical_column_with_vocabulary_file_v2(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    dtype: Any = tf.string,
    default_value: int | None = None,
    num_oov_buckets: int = 0,
    file_format: str | None = None,
) -> VocabularyFileCategoricalColumn:
    """Values of a feature as lines of a file.

    Args:
      key: The feature.
      vocabulary_file: One value a line.
      vocabulary_size: How many lines count; all by default.
      dtype: The type of the values: string or an integer.
      default_value: The id of values that are not in the file; -1, which is left out, by default.
      num_oov_buckets: Or the number of hash buckets for them.
      file_format: None for lines of text.

    Raises:
      ValueError: The file is missing, the size not positive, both `default_value` and
        `num_oov_buckets` are given, or the format is unknown.
    """
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if file_format is None and vocabulary_file.endswith("tfrecord.gz"):
        file_format = "tfrecord_gzip"
    if file_format is not None:
        raise ValueError(
            f"file_format {file_format!r} of column {key} is not supported: write the vocabulary "
            "as a text file with a value a line."
        )
    if vocabulary_size is None:
        if not tf.gfile.Exists(vocabulary_file):
            raise ValueError(f"vocabulary_file in {key} does not exist.")
        with tf.gfile.GFile(vocabulary_file, mode="rb") as lines:
            vocabulary_size = sum(1 for _ in lines)
        tf.logging.info(
            "vocabulary_size = %d in %s is inferred from the number of elements in the "
            "vocabulary_file %s.",
            vocabulary_size,
            key,
            vocabulary_file,
        )
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_buckets(num_oov_buckets, default_value is not None, key)
    check_text_or_integer(dtype, f"column_name: {key}")
    check_key(key)
    return VocabularyFileCategoricalColumn(
        key=key,
        vocabulary_file=vocabulary_file,
        vocabulary_size=vocabulary_size,
        num_oov_buckets=num_oov_buckets or 0,
        dtype=dtype,
        default_value=-1 if default_value is None else default_value,
        file_format=file_format,
    )


def categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Any,
    dtype: Any = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> VocabularyListCategoricalColumn:
    """Values of a feature as places in a list.

    Args:
      key: The feature.
      vocabulary_list: The values.
      dtype: Their type; that of the list by default.
      default_value: The id of values that are not in the list; -1 is left out.
      num_oov_buckets: Or the number of hash buckets for them.

    Raises:
      ValueError: An empty list, a value twice, both `default_value` and `num_oov_buckets`, or
        types that do not fit.
    """
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    own = tf.as_dtype(np.array(vocabulary_list).dtype)
    _check_buckets(num_oov_buckets, default_value != -1, key)
    check_text_or_integer(own, f"column_name: {key} vocabulary")
    if dtype is None:
        dtype = own
    elif dtype.is_integer != own.is_integer:
        raise ValueError(
            f"dtype {dtype} and vocabulary dtype {own} do not match, column_name: {key}"
        )
    check_text_or_integer(dtype, f"column_name: {key}")
    check_key(key)
    return VocabularyListCategoricalColumn(
        key, tuple(vocabulary_list), dtype, default_value, num_oov_buckets
    )


def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """Values of a feature that are ids.

    Args:
      key: The feature.
      num_buckets: Ids are below this.
      default_value: The id that stands for others; by default they are an error.

    Raises:
      ValueError: `num_buckets` is not positive, or `default_value` is no id.
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(
            f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}"
        )
    check_key(key)
    return IdentityCategoricalColumn(key, num_buckets, default_value)
