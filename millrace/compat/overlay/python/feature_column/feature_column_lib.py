"""TensorFlow's python.feature_column.feature_column_lib: both generations' public names."""

from millrace.compat.overlay.python.feature_column.feature_column_v2 import *
from millrace.feature_column.dense import shared_embeddings as shared_embedding_columns_v2
from millrace.feature_column.state import StateManager
from millrace.keras.layers.feature_columns import DenseFeatures, SequenceFeatures
