"""`tf.keras.experimental`. Re-exports only."""

from millrace.keras.layers.feature_columns import SequenceFeatures

__all__ = ["SequenceFeatures"]
