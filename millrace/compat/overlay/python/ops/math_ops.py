"""What programs take from TensorFlow's python.ops.math_ops that has no public name."""

from millrace.ops.math.counting import bincount
from millrace.ops.math.reduction import reduced_shape
