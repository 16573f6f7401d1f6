"""`tf.contrib.layers`' columns, which came before `tf.feature_column`'s and are made of them now.

What differs is kept: a column of ids knows how a linear model combines them, embeddings are
called ``weights``, and layers are in the order of TensorFlow's classes and names.
"""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.feature_column.categorical import (
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn,
)
from millrace.feature_column.column import _CategoricalColumn
from millrace.feature_column.combined import CrossedColumn, WeightedCategoricalColumn
from millrace.feature_column.dense import EmbeddingColumn, IndicatorColumn
from millrace.feature_column.models import make_parse_example_spec
from millrace.feature_column.numeric import BucketizedColumn, NumericColumn
from millrace.feature_column.transformation import _LazyBuilder, normalized

__all__ = [
    "bucketized_column",
    "check_feature_columns",
    "create_feature_spec_for_parsing",
    "crossed_column",
    "embedding_column",
    "infer_real_valued_columns",
    "input_from_feature_columns",
    "one_hot_column",
    "parse_feature_columns_from_examples",
    "real_valued_column",
    "sparse_column_with_hash_bucket",
    "sparse_column_with_integerized_feature",
    "sparse_column_with_keys",
    "sparse_column_with_vocabulary_file",
    "transform_features",
    "weighted_sparse_column",
    "weighted_sum_from_feature_columns",
]

fc = tf.feature_column

#: TensorFlow's names of the classes: columns are put in their order.
_OLD_NAMES: dict[type, str] = {
    BucketizedColumn: "_BucketizedColumn",
    CrossedColumn: "_CrossedColumn",
    EmbeddingColumn: "_EmbeddingColumn",
    HashedCategoricalColumn: "_SparseColumnHashed",
    IdentityCategoricalColumn: "_SparseColumnIntegerized",
    IndicatorColumn: "_OneHotColumn",
    NumericColumn: "_RealValuedColumn",
    VocabularyFileCategoricalColumn: "_SparseColumnVocabulary",
    VocabularyListCategoricalColumn: "_SparseColumnKeys",
    WeightedCategoricalColumn: "_WeightedSparseColumn",
}


def _order(column: Any) -> tuple[str, str, str]:
    inner = getattr(column, "categorical_column", None)
    names = (_OLD_NAMES.get(type(each), "") for each in (column, inner))
    return (*names, column.name)


def _combining(column: Any, combiner: str) -> Any:
    column.combiner = combiner
    return column


def sparse_column_with_hash_bucket(
    column_name: str, hash_bucket_size: int, combiner: str = "sum", dtype: Any = tf.string
) -> Any:
    """Values hashed into buckets."""
    column = fc.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)
    return _combining(column, combiner)


def sparse_column_with_keys(
    column_name: str,
    keys: Any,
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> Any:
    """Places of values in a list."""
    column = fc.categorical_column_with_vocabulary_list(column_name, keys, dtype, default_value)
    return _combining(column, combiner)


def sparse_column_with_vocabulary_file(
    column_name: str,
    vocabulary_file: str,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> Any:
    """Lines of values in a file.

    Raises:
      ValueError: `vocab_size` is missing.
    """
    if vocab_size is None:
        raise ValueError(f"vocab_size should be defined. column_name: {column_name}")
    column = fc.categorical_column_with_vocabulary_file(
        column_name,
        vocabulary_file,
        vocab_size,
        num_oov_buckets,
        None if num_oov_buckets else default_value,
        dtype,
    )
    return _combining(column, combiner)


def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: Any = tf.int64
) -> Any:
    """Values that are ids."""
    if not dtype.is_integer:
        raise ValueError(f"dtype must be an integer. dtype is {dtype}, column_name: {column_name}")
    return _combining(fc.categorical_column_with_identity(column_name, bucket_size), combiner)


def weighted_sparse_column(
    sparse_id_column: Any, weight_column_name: str, dtype: Any = tf.float32
) -> Any:
    """Ids whose weights are another feature."""
    column = fc.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)
    return _combining(column, getattr(sparse_id_column, "combiner", "sum"))


def crossed_column(
    columns: Any,
    hash_bucket_size: int,
    combiner: str = "sum",
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    hash_key: int | None = None,
) -> Any:
    """Combinations of values, hashed into buckets; columns of hash buckets give their values."""
    keys = [c.key if isinstance(c, HashedCategoricalColumn) else c for c in columns]
    return _combining(fc.crossed_column(keys, hash_bucket_size, hash_key), combiner)


def real_valued_column(
    column_name: str,
    dimension: int = 1,
    default_value: Any = None,
    dtype: Any = tf.float32,
    normalizer: Any = None,
) -> Any:
    """Numbers.

    Raises:
      TypeError: `dimension` is no integer.
    """
    if not isinstance(dimension, int):
        raise TypeError(
            f"dimension must be an integer. dimension: {dimension}, column_name: {column_name}"
        )
    return fc.numeric_column(column_name, (dimension,), default_value, dtype, normalizer)


def bucketized_column(source_column: Any, boundaries: Any) -> Any:
    """Buckets of numbers; boundaries are sorted, and those that come twice dropped."""
    if not boundaries or not isinstance(boundaries, list | tuple):
        raise ValueError(f"boundaries must be a non-empty list or tuple, got {boundaries}")
    column = fc.bucketized_column(source_column, sorted(set(boundaries)))
    return _combining(column, "sum")


def embedding_column(
    sparse_id_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Any:
    """Rows of a table for ids."""
    return fc.embedding_column(
        sparse_id_column,
        dimension,
        combiner,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )


def one_hot_column(sparse_id_column: Any) -> Any:
    """How often each id occurs."""
    return fc.indicator_column(sparse_id_column)


def create_feature_spec_for_parsing(feature_columns: Any) -> dict[str, Any]:
    """What `tf.parse_example` is to be told."""
    return make_parse_example_spec(feature_columns)


def parse_feature_columns_from_examples(
    serialized: Any, feature_columns: Any, name: str | None = None, example_names: Any = None
) -> dict[Any, Any]:
    """Parses Examples, and gives what each column makes of them."""
    spec = create_feature_spec_for_parsing(feature_columns)
    features = tf.parse_example(serialized, spec, name=name, example_names=example_names)
    return transform_features(features, feature_columns)


def transform_features(features: Any, feature_columns: Any) -> dict[Any, Any]:
    """What each column makes of a batch."""
    builder = _LazyBuilder(features)
    return {column: builder.get(column) for column in sorted(set(feature_columns), key=_order)}


def check_feature_columns(feature_columns: Any) -> None:
    """Raises ValueError if there are none, one is none, or a name comes twice."""
    normalized(feature_columns, tuple(_OLD_NAMES), "_FeatureColumn")


def infer_real_valued_columns(features: Any) -> list[Any]:
    """A column of numbers for each feature, or for the only one.

    Raises:
      ValueError: A feature is sparse, has no known width or is no number.
    """
    named = features if isinstance(features, dict) else {"": features}
    found = []
    for key, tensor in sorted(named.items()):
        tensor = tf.convert_to_tensor_or_sparse_tensor(tensor)
        if isinstance(tensor, tf.SparseTensor):
            raise ValueError(f"Sparse feature {key!r} has no width: name its column yourself")
        width = 1 if tensor.shape.ndims == 1 else tensor.shape.as_list()[1]
        found.append(real_valued_column(key, dimension=width, dtype=tensor.dtype))
    return found


def input_from_feature_columns(
    columns_to_tensors: Any,
    feature_columns: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    cols_to_outs: dict[Any, Any] | None = None,
) -> Any:
    """The dense columns of a batch side by side.

    Args:
      columns_to_tensors: Tensors by key.
      feature_columns: Dense columns: of numbers, buckets, embeddings and one-hot vectors.
      weight_collections: Collections for the variables, besides the usual ones.
      trainable: Whether the variables are trained.
      scope: The variable scope.
      cols_to_outs: Filled with the matrix of each column.

    Raises:
      ValueError: A column is not dense.
    """
    check_feature_columns(feature_columns)
    values = list(columns_to_tensors.values())
    with tf.variable_scope(scope, default_name="input_from_feature_columns", values=values):
        builder = _LazyBuilder(columns_to_tensors)
        outputs = []
        for column in sorted(set(feature_columns), key=_order):
            if not hasattr(column, "_get_dense_tensor"):
                raise ValueError(
                    f"Error creating input layer for column: {column.name}. It is sparse: use "
                    "embedding_column or one_hot_column."
                )
            with tf.variable_scope(None, default_name=column.name, custom_getter=_as_weights):
                collections = _collections(weight_collections)
                dense = column._get_dense_tensor(builder, collections, trainable)
                outputs.append(tf.reshape(dense, [-1, column._variable_shape.num_elements()]))
            if cols_to_outs is not None:
                cols_to_outs[column] = outputs[-1]
        return tf.concat(outputs, 1)


def _collections(given: Any) -> list[Any]:
    usual = [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES]
    return [*(each for each in given or () if each not in usual), *usual]


def _as_weights(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Calls a table ``weights``, as these layers do."""
    return getter(name.replace("embedding_weights", "weights"), *args, **kwargs)


def weighted_sum_from_feature_columns(
    columns_to_tensors: Any,
    feature_columns: Any,
    num_outputs: int,
    weight_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tuple[Any, dict[Any, Any], Any]:
    """A linear model of columns.

    Args:
      columns_to_tensors: Tensors by key.
      feature_columns: Columns of ids and of numbers.
      num_outputs: How many outputs.
      weight_collections: Collections for the variables, besides the usual ones.
      trainable: Whether the variables are trained.
      scope: The variable scope.

    Returns:
      The sums ``[batch, num_outputs]``, the variables of each column, and the bias.
    """
    check_feature_columns(feature_columns)
    options: dict[str, Any] = {
        "trainable": trainable,
        "collections": _collections(weight_collections),
    }
    values = list(columns_to_tensors.values())
    with tf.variable_scope(scope, default_name="weighted_sum_from_feature_columns", values=values):
        builder = _LazyBuilder(columns_to_tensors)
        sums, found = [], {}
        for column in sorted(set(feature_columns), key=_order):
            with tf.variable_scope(None, default_name=column.name):
                is_ids = isinstance(column, _CategoricalColumn)
                rows = column._num_buckets if is_ids else column._variable_shape.num_elements()
                # Numbers have a ``weight``, ids and buckets have ``weights``.
                weights = tf.get_variable(
                    "weight" if isinstance(column, NumericColumn) else "weights",
                    [rows, num_outputs],
                    initializer=tf.zeros_initializer(),
                    **options,
                )
                parts = getattr(weights, "_get_variable_list", None)
                found[column] = list(parts()) if parts else [weights]
                sums.append(_weighted(column, builder, weights, is_ids, rows))
        bias = tf.get_variable(
            "bias_weight", [num_outputs], initializer=tf.zeros_initializer(), **options
        )
        return tf.nn.bias_add(tf.add_n(sums), tf.convert_to_tensor(bias)), found, bias


def _weighted(column: Any, builder: Any, weights: Any, is_ids: bool, rows: int) -> Any:
    if not is_ids:
        dense = tf.reshape(column._get_dense_tensor(builder), [-1, rows])
        return tf.matmul(dense, weights)
    pair = column._get_sparse_tensors(builder)
    return tf.nn.safe_embedding_lookup_sparse(
        weights,
        pair.id_tensor,
        sparse_weights=pair.weight_tensor,
        combiner=getattr(column, "combiner", "sum"),
        name="weights",
    )
