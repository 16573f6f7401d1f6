"""`tf.contrib.util`. Re-exports only."""

from millrace import get_static_value as constant_value
from millrace import make_ndarray, make_tensor_proto

__all__ = ["constant_value", "make_ndarray", "make_tensor_proto"]
