"""What programs take from TensorFlow's python.ops.nn_ops that has no public name."""

from millrace.ops.nn.bias import bias_add_v1
from millrace.ops.nn.cross_entropy import softmax_cross_entropy_with_logits_v2
