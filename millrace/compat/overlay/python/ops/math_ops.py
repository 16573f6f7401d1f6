"""What programs take from TensorFlow's python.ops.math_ops that has no public name."""

from millrace.ops.counting import bincount
from millrace.ops.reduction import reduced_shape
