"""TensorFlow's python.feature_column.feature_column: the first generation's classes.

Millrace's columns serve both generations, so that each class has two names.
"""

from millrace.feature_column.categorical import HashedCategoricalColumn as _HashedCategoricalColumn
from millrace.feature_column.categorical import (
    IdentityCategoricalColumn as _IdentityCategoricalColumn,
)
from millrace.feature_column.categorical import (
    VocabularyFileCategoricalColumn as _VocabularyFileCategoricalColumn,
)
from millrace.feature_column.categorical import (
    VocabularyListCategoricalColumn as _VocabularyListCategoricalColumn,
)
from millrace.feature_column.categorical import (
    categorical_column_with_hash_bucket as _categorical_column_with_hash_bucket,
)
from millrace.feature_column.categorical import (
    categorical_column_with_identity as _categorical_column_with_identity,
)
from millrace.feature_column.categorical import (
    categorical_column_with_vocabulary_file as _categorical_column_with_vocabulary_file,
)
from millrace.feature_column.categorical import (
    categorical_column_with_vocabulary_list as _categorical_column_with_vocabulary_list,
)
from millrace.feature_column.checks import checked_shape as _check_shape
from millrace.feature_column.column import (
    _CategoricalColumn,
    _DenseColumn,
    _FeatureColumn,
    _SequenceDenseColumn,
)
from millrace.feature_column.combined import CrossedColumn as _CrossedColumn
from millrace.feature_column.combined import WeightedCategoricalColumn as _WeightedCategoricalColumn
from millrace.feature_column.combined import crossed_column as _crossed_column
from millrace.feature_column.combined import (
    weighted_categorical_column as _weighted_categorical_column,
)
from millrace.feature_column.dense import EmbeddingColumn as _EmbeddingColumn
from millrace.feature_column.dense import IndicatorColumn as _IndicatorColumn
from millrace.feature_column.dense import _SharedEmbeddingColumn
from millrace.feature_column.dense import embedding_column as _embedding_column
from millrace.feature_column.dense import indicator_column as _indicator_column
from millrace.feature_column.models import (
    InputLayer,
    _transform_features,
    input_layer,
    linear_model,
    make_parse_example_spec,
)
from millrace.feature_column.models import _columns as _normalize_feature_columns
from millrace.feature_column.numeric import BucketizedColumn as _BucketizedColumn
from millrace.feature_column.numeric import NumericColumn as _NumericColumn
from millrace.feature_column.numeric import bucketized_column as _bucketized_column
from millrace.feature_column.numeric import numeric_column as _numeric_column
from millrace.feature_column.sequence import SequenceCategoricalColumn as _SequenceCategoricalColumn
from millrace.feature_column.transformation import _LazyBuilder
from millrace.feature_column.transformation import (
    check_batch_sizes as _verify_static_batch_size_equality,
)
from millrace.feature_column.transformation import (
    sparse_input as _to_sparse_input_and_drop_ignore_values,
)
