"""TensorFlow's python.feature_column.sequence_feature_column."""

from millrace.feature_column.sequence import *
from millrace.keras.layers.feature_columns import SequenceFeatures
