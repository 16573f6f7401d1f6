"""What programs take from TensorFlow's python.ops.random_ops that has no public name."""

from millrace.ops.random.random import parameterized_truncated_normal
