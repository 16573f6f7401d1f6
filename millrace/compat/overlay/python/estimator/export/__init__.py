"""Modules of TensorFlow's python.estimator.export."""
