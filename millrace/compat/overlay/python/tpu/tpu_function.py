"""What programs take from TensorFlow's python.tpu.tpu_function: there is one shard."""

from millrace.compat.overlay.contrib.tpu.python.tpu.tpu_function import TpuContext, get_tpu_context
