"""What programs take from TensorFlow's python.ops.array_ops that has no public name."""

from millrace.ops.array_sets import listdiff
