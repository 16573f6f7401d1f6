"""What programs take from TensorFlow's python.framework.constant_op that has no public name."""

from millrace.ops.array.constant import constant
