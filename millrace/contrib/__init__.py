"""`tf.contrib`: what TensorFlow 1's programs use of it. Packages re-export."""

from millrace.contrib import framework, layers, rnn, training

__all__ = ["framework", "layers", "rnn", "training"]
