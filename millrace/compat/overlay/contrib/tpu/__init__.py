"""Modules at the paths of TensorFlow's contrib.tpu."""
