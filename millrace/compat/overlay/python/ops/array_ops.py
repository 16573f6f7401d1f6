"""What programs take from TensorFlow's python.ops.array_ops that has no public name."""

from millrace.ops.array.sets import listdiff
