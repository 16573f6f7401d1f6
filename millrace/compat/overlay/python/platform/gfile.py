"""What programs take from TensorFlow's python.platform.gfile that has no public name."""

import millrace.gfile as _gfile

globals().update({n: getattr(_gfile, n) for n in dir(_gfile) if not n.startswith("__")})
