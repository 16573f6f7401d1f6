"""What programs take from TensorFlow's python.framework.function."""

from millrace.ops.functions.defun import DefinedFunction as _DefinedFunction
from millrace.ops.functions.defun import Defun
