"""Modules at the paths of TensorFlow's python.data.util."""
