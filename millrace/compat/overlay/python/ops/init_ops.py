"""What programs take from TensorFlow's python.ops.init_ops that has no public name."""

from millrace.ops.state.initializers import compute_fans as _compute_fans
