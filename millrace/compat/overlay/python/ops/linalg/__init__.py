"""TensorFlow's python.ops.linalg."""
