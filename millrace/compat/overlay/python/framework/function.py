"""What programs take from TensorFlow's python.framework.function that has no public name."""

from millrace.ops.function_call import Defun
