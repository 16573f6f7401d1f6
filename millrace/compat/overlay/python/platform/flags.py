"""What programs take from TensorFlow's python.platform.flags that has no public name."""

import millrace.flags as _flags

globals().update({n: getattr(_flags, n) for n in dir(_flags) if not n.startswith("__")})
