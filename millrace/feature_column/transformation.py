"""How the features of a batch become the tensors of columns, each of them once.

`FeatureTransformationCache` (second generation) and `_LazyBuilder` (first) hold a batch and what
columns have made of it. Raw features of rank 1 get a second dimension.
"""

from __future__ import annotations

import collections.abc
from typing import Any

import millrace as tf
from millrace.feature_column.column import FeatureColumn, _FeatureColumn

__all__ = ["FeatureTransformationCache"]


class FeatureTransformationCache:
    """The features of a batch, and what columns have made of them.

    Args:
      features: Tensors and SparseTensors by key. Keys may be columns: what an input function has
        transformed already.
    """

    def __init__(self, features: Any) -> None:
        self._features = features.copy()
        self._feature_tensors: dict[Any, Any] = {}

    def get(self, key: Any, state_manager: Any, training: Any = None) -> Any:
        """The tensor of a feature or column.

        Args:
          key: A feature's key, or a column.
          state_manager: Where columns keep tables.
          training: Passed to columns that take it.

        Raises:
          ValueError: There is no such feature, it is a scalar, or the column makes nothing.
          TypeError: `key` is neither text nor a column.
        """
        if key in self._feature_tensors:
            return self._feature_tensors[key]
        if key in self._features:
            made = _as_batch(self._features[key], key)
        else:
            self._require_column(key)
            made = self._transform(key, state_manager, training)
            if made is None:
                raise ValueError(f"Column {key.name} is not supported.")
        self._feature_tensors[key] = made
        return made

    def _require_column(self, key: Any) -> None:
        if isinstance(key, str):
            raise ValueError(
                f"Feature {key} is not in features dictionary. It has: "
                f"{', '.join(sorted(map(str, self._features))) or 'nothing'}."
            )
        if not isinstance(key, FeatureColumn):
            raise TypeError(f'"key" must be either a "str" or "FeatureColumn". Provided: {key}')

    def _transform(self, column: Any, state_manager: Any, training: Any) -> Any:
        if training is None:
            return column.transform_feature(self, state_manager)
        try:
            return column.transform_feature(self, state_manager, training=training)
        except TypeError:  # most columns do not take it
            return column.transform_feature(self, state_manager)


class _LazyBuilder(FeatureTransformationCache):
    """The first generation's cache: columns are asked by their underscored hooks."""

    def get(self, key: Any, state_manager: Any = None, training: Any = None) -> Any:
        """The tensor of a feature or column."""
        return super().get(key, state_manager)

    def _require_column(self, key: Any) -> None:
        if not isinstance(key, str) and not isinstance(key, _FeatureColumn):
            raise TypeError(f'"key" must be either a "str" or "_FeatureColumn". Provided: {key}')
        if isinstance(key, str):
            super()._require_column(key)

    def _transform(self, column: Any, state_manager: Any, training: Any) -> Any:
        return column._transform_feature(self)


def _as_batch(feature: Any, key: Any) -> Any:
    """A raw feature as a tensor with at least two dimensions."""
    tensor = tf.convert_to_tensor_or_sparse_tensor(feature)
    rank = tensor.get_shape().ndims
    scalar = f"Feature (key: {key}) cannot have rank 0. Given: {tensor}"
    if rank == 0:
        raise ValueError(scalar)
    if rank is not None:
        return _with_column(tensor) if rank == 1 else tensor
    with tf.control_dependencies([tf.assert_positive(tf.rank(tensor), message=scalar)]):
        return tf.cond(tf.equal(1, tf.rank(tensor)), lambda: _with_column(tensor), lambda: tensor)


def _with_column(tensor: Any) -> Any:
    if isinstance(tensor, tf.SparseTensor):
        return tf.sparse_reshape(tensor, [tf.shape(tensor)[0], 1])
    return tf.expand_dims(tensor, -1)


def sparse_input(tensor: Any, ignore_value: Any = None) -> Any:
    """A feature as a SparseTensor; a dense one loses its entries that say "missing".

    Args:
      tensor: A tensor or SparseTensor.
      ignore_value: What says "missing"; by default ``""`` in texts, -1 in integers, else 0.
    """
    tensor = tf.convert_to_tensor_or_sparse_tensor(tensor)
    if isinstance(tensor, tf.SparseTensor):
        return tensor
    with tf.name_scope(None, "to_sparse_input", (tensor, ignore_value)):
        if ignore_value is None:
            if tensor.dtype == tf.string:
                ignore_value = ""
            else:
                ignore_value = -1 if tensor.dtype.is_integer else 0.0
        missing = tf.cast(ignore_value, tensor.dtype, name="ignore_value")
        indices = tf.where(tf.not_equal(tensor, missing), name="indices")
        return tf.SparseTensor(
            indices=indices,
            values=tf.gather_nd(tensor, indices, name="values"),
            dense_shape=tf.shape(tensor, out_type=tf.int64, name="dense_shape"),
        )


def sequence_length(sparse: Any, num_elements: int = 1) -> Any:
    """How many steps each row of a SparseTensor ``[batch, time, ...]`` has.

    Args:
      sparse: The sequences.
      num_elements: How many of its entries make one step.
    """
    with tf.name_scope(None, "sequence_length") as scope:
        rows, places = sparse.indices[:, 0], sparse.indices[:, 1] + 1
        lengths = tf.segment_max(places, segment_ids=rows)
        lengths = tf.cast(tf.ceil(lengths / num_elements), tf.int64)
        # Rows behind the last entry have no steps.
        rest = tf.shape(sparse)[:1] - tf.shape(lengths)[:1]
        return tf.concat([lengths, tf.zeros(rest, lengths.dtype)], axis=0, name=scope)


def normalized(feature_columns: Any, base: Any, what: str) -> list[Any]:
    """The columns of an argument as a list.

    Args:
      feature_columns: A column, or an iterable of them.
      base: The class that they must have.
      what: Its name, for messages.

    Raises:
      ValueError: There is none, something else is among them, or two have the same name.
    """
    if isinstance(feature_columns, base):
        feature_columns = [feature_columns]
    if isinstance(feature_columns, collections.abc.Iterator):
        feature_columns = list(feature_columns)
    if isinstance(feature_columns, dict):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    by_name: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, base):
            raise ValueError(
                f"Items of feature_columns must be a {what}. Given (type {type(column)}): {column}."
            )
    if not feature_columns:
        raise ValueError("feature_columns must not be empty.")
    for column in feature_columns:
        if column.name in by_name:
            raise ValueError(
                f"Duplicate feature column name found for columns: {column} and "
                f"{by_name[column.name]}. This usually means that these columns refer to same base "
                "feature. Either one must be discarded or a duplicated but renamed item must be "
                "inserted in features dict."
            )
        by_name[column.name] = column
    return list(feature_columns)


def check_batch_sizes(tensors: list[Any], columns: list[Any]) -> None:
    """Raises ValueError if columns have different, known batch sizes."""
    first: tuple[Any, Any] | None = None
    for tensor, column in zip(tensors, columns, strict=False):
        size = tensor.shape.dims[0] if tensor.shape.ndims else None
        if size is None or size.value is None:
            continue
        if first is None:
            first = (column, size)
        elif first[1].value != size.value:
            raise ValueError(
                "Batch size (first dimension) of each feature must be same. Batch size of columns "
                f"({first[0].name}, {column.name}): ({first[1]}, {size})"
            )
