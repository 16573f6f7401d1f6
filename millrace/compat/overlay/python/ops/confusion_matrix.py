"""What programs take from TensorFlow's python.ops.confusion_matrix that has no public name."""

from millrace.ops.nn.weights import remove_squeezable_dimensions
