"""What programs take from TensorFlow's python.framework.errors_impl that has no public name."""

from millrace.core.errors import OperatorNotAllowedInGraphError, OpError
