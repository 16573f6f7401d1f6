"""`tf.layers.experimental`. Re-exports only."""

from millrace.layers.base import keras_style_scope, set_keras_style

__all__ = ["keras_style_scope", "set_keras_style"]
