"""`tf.keras.datasets`. Re-exports only."""

from millrace.keras.datasets import mnist

__all__ = ["mnist"]
