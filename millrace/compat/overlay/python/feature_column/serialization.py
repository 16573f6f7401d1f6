"""TensorFlow's python.feature_column.serialization."""

from millrace.feature_column.serialization import *
