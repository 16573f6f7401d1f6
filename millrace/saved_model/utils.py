"""`tf.saved_model.utils`: TensorFlow's name for `saved_model.tensor_info`."""

from millrace.saved_model.tensor_info import build_tensor_info, get_tensor_from_tensor_info

__all__ = ["build_tensor_info", "get_tensor_from_tensor_info"]
