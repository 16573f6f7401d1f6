"""TensorFlow's python.feature_column.utils."""

from millrace.feature_column.checks import check_key as assert_key_is_string
from millrace.feature_column.checks import check_text_or_integer as assert_string_or_int
from millrace.feature_column.checks import checked_default as check_default_value
from millrace.feature_column.transformation import (
    sequence_length as sequence_length_from_sparse_tensor,
)
