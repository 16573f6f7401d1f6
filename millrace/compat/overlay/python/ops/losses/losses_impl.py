"""What programs take from TensorFlow's python.ops.losses.losses_impl that has no public name."""

from millrace.ops.nn.weights import remove_squeezable_dimensions as _remove_squeezable_dimensions
