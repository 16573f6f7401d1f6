"""`tf.feature_column`: how features become the inputs of models. Re-exports only."""

from millrace.feature_column.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
)
from millrace.feature_column.combined import crossed_column, weighted_categorical_column
from millrace.feature_column.dense import (
    embedding_column,
    indicator_column,
    shared_embedding_columns,
    shared_embeddings,
)
from millrace.feature_column.models import input_layer, linear_model, make_parse_example_spec
from millrace.feature_column.numeric import bucketized_column, numeric_column
from millrace.feature_column.sequence import (
    sequence_categorical_column_with_hash_bucket,
    sequence_categorical_column_with_identity,
    sequence_categorical_column_with_vocabulary_file,
    sequence_categorical_column_with_vocabulary_list,
    sequence_numeric_column,
)

__all__ = [
    "bucketized_column",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file",
    "categorical_column_with_vocabulary_list",
    "crossed_column",
    "embedding_column",
    "indicator_column",
    "input_layer",
    "linear_model",
    "make_parse_example_spec",
    "numeric_column",
    "sequence_categorical_column_with_hash_bucket",
    "sequence_categorical_column_with_identity",
    "sequence_categorical_column_with_vocabulary_file",
    "sequence_categorical_column_with_vocabulary_list",
    "sequence_numeric_column",
    "shared_embedding_columns",
    "shared_embeddings",
    "weighted_categorical_column",
]
