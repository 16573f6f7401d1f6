"""What programs take from TensorFlow's python.platform.tf_logging that has no public name."""

import millrace.logging as _logging
from millrace.platform.logging import get_logger

globals().update({n: getattr(_logging, n) for n in dir(_logging) if not n.startswith("__")})
