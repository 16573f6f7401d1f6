"""What programs take from TensorFlow's python.ops.weights_broadcast_ops."""

from millrace.ops.nn.weights import assert_broadcastable, broadcast_weights
