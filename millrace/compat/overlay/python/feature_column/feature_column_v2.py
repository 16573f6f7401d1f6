"""TensorFlow's python.feature_column.feature_column_v2: the second generation's classes."""

from millrace.feature_column.categorical import *
from millrace.feature_column.checks import checked_shape as _check_shape
from millrace.feature_column.column import *
from millrace.feature_column.combined import *
from millrace.feature_column.dense import *
from millrace.feature_column.dense import shared_embeddings as shared_embedding_columns_v2
from millrace.feature_column.models import *
from millrace.feature_column.numeric import *
from millrace.feature_column.sequence import *
from millrace.feature_column.serialization import *
from millrace.feature_column.state import LayerState as _StateManagerImpl
from millrace.feature_column.state import StateManager
from millrace.feature_column.transformation import *
from millrace.feature_column.transformation import (
    sparse_input as _to_sparse_input_and_drop_ignore_values,
)
