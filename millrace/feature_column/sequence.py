"""Columns of sequences of ids, and of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import millrace as tf
from millrace.feature_column import categorical
from millrace.feature_column.checks import check_number, checked_shape
from millrace.feature_column.column import (
    IdWeightPair,
    OwnCategoricalColumn,
    OwnSequenceDenseColumn,
    TensorSequenceLengthPair,
    num_buckets_of,
    parse_spec_of,
    sparse_tensors_of,
)
from millrace.feature_column.serialization import Configurable, register_feature_column
from millrace.feature_column.transformation import sequence_length

__all__ = [
    "SequenceCategoricalColumn",
    "SequenceNumericColumn",
    "concatenate_context_input",
    "sequence_categorical_column_with_hash_bucket",
    "sequence_categorical_column_with_identity",
    "sequence_categorical_column_with_vocabulary_file",
    "sequence_categorical_column_with_vocabulary_list",
    "sequence_numeric_column",
]


class _SequenceFields(NamedTuple):
    categorical_column: Any


@register_feature_column
class SequenceCategoricalColumn(Configurable, OwnCategoricalColumn, _SequenceFields):
    """Ids whose second dimension is time."""

    @property
    def name(self) -> str:
        """That of the column of ids."""
        return str(self.categorical_column.name)

    @property
    def parents(self) -> list[Any]:
        """The column of ids."""
        return [self.categorical_column]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the column of ids."""
        return parse_spec_of(self.categorical_column)

    @property
    def num_buckets(self) -> int:
        """That of the column of ids."""
        return num_buckets_of(self.categorical_column)

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The ids."""
        return self.categorical_column.transform_feature(transformation_cache, state_manager)

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> IdWeightPair:
        """The ids and weights, ``[batch, time, the rest]``."""
        pair = sparse_tensors_of(self.categorical_column, transformation_cache, state_manager)
        shape = tf.shape(pair.id_tensor)
        target = [shape[0], shape[1], tf.reduce_prod(shape[2:])]
        ids, weights = tf.sparse_reshape(pair.id_tensor, target), pair.weight_tensor
        if weights is not None:
            weights = tf.sparse_reshape(weights, target)
        return IdWeightPair(ids, weights)


class _NumericFields(NamedTuple):
    key: str
    shape: tuple[int, ...]
    default_value: float
    dtype: Any
    normalizer_fn: Callable[[Any], Any] | None


@register_feature_column
class SequenceNumericColumn(Configurable, OwnSequenceDenseColumn, _NumericFields):
    """Numbers whose second dimension is time."""

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

    @property
    def variable_shape(self) -> Any:
        """The shape of a step."""
        return tf.TensorShape(self.shape)

    @property
    def _variable_shape(self) -> Any:
        return self.variable_shape

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The normalized numbers, as a SparseTensor."""
        numbers = transformation_cache.get(self.key, state_manager)
        return numbers if self.normalizer_fn is None else self.normalizer_fn(numbers)

    def get_sequence_dense_tensor(
        self, transformation_cache: Any, state_manager: Any
    ) -> TensorSequenceLengthPair:
        """The padded numbers, and how many steps there are."""
        sparse = transformation_cache.get(self, state_manager)
        dense = tf.sparse_tensor_to_dense(sparse, default_value=self.default_value)
        dense = tf.reshape(dense, tf.concat([tf.shape(dense)[:1], [-1], self.shape], axis=0))
        # Two dimensions: the numbers of all steps are one row.
        each = self.variable_shape.num_elements() if sparse.shape.ndims == 2 else 1
        return TensorSequenceLengthPair(dense, sequence_length(sparse, each))


def sequence_numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: float = 0.0,
    dtype: Any = tf.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> SequenceNumericColumn:
    """Sequences of numbers.

    Args:
      key: The feature, a SparseTensor.
      shape: How many numbers a step has.
      default_value: What sequences are padded with.
      dtype: The type of the numbers when they are parsed.
      normalizer_fn: Applied to the SparseTensor.

    Raises:
      TypeError: A dimension is no integer, or `normalizer_fn` cannot be called.
      ValueError: A dimension is not positive, or the type is no number.
    """
    shape = checked_shape(shape, key)
    check_number(dtype, f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return SequenceNumericColumn(key, shape, default_value, dtype, normalizer_fn)


def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Sequences of ids: `categorical_column_with_identity`, with time."""
    return SequenceCategoricalColumn(
        categorical.categorical_column_with_identity(key, num_buckets, default_value)
    )


def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = tf.string
) -> SequenceCategoricalColumn:
    """Sequences of values: `categorical_column_with_hash_bucket`, with time."""
    return SequenceCategoricalColumn(
        categorical.categorical_column_with_hash_bucket(key, hash_bucket_size, dtype)
    )


def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = tf.string,
) -> SequenceCategoricalColumn:
    """Sequences of values: `categorical_column_with_vocabulary_file`, with time."""
    return SequenceCategoricalColumn(
        categorical.categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype
        )
    )


def sequence_categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Any,
    dtype: Any = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> SequenceCategoricalColumn:
    """Sequences of values: `categorical_column_with_vocabulary_list`, with time."""
    return SequenceCategoricalColumn(
        categorical.categorical_column_with_vocabulary_list(
            key, vocabulary_list, dtype, default_value, num_oov_buckets
        )
    )


def concatenate_context_input(context_input: Any, sequence_input: Any) -> Any:
    """Puts the same context behind every step of a sequence.

    Args:
      context_input: ``[batch, width]``, float32.
      sequence_input: ``[batch, time, width]``, float32.

    Returns:
      ``[batch, time, both widths]``.
    """
    checks = []
    for tensor, rank, what in ((sequence_input, 3, "sequence"), (context_input, 2, "context")):
        checks.append(
            tf.assert_rank(
                tensor,
                rank,
                message=f"{what}_input must have rank {rank}",
                data=[tf.shape(tensor)],
            )
        )
        checks.append(
            tf.assert_type(
                tensor,
                tf.float32,
                message=f"{what}_input must have dtype float32; got {tensor.dtype}.",
            )
        )
    with tf.control_dependencies(checks):
        steps = tf.shape(sequence_input)[1]
        repeated = tf.tile(tf.expand_dims(context_input, 1), tf.concat([[1], [steps], [1]], 0))
    return tf.concat([sequence_input, repeated], 2)
