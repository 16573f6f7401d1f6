"""Millrace: Distributed TensorFlow 1.x on JAX and XLA."""
