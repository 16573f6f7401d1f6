"""Modules at the paths of TensorFlow's tree; see `compat.tensorflow_tree`."""
