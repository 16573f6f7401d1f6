"""TensorFlow's python.feature_column.dense_features."""

from millrace.keras.layers.feature_columns import DenseFeatures
