"""`tf.keras.preprocessing`. Re-exports only."""

from millrace.keras.preprocessing import sequence

__all__ = ["sequence"]
