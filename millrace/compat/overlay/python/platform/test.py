"""What programs take from TensorFlow's python.platform.test that has no public name."""

import millrace.test as _test

globals().update({n: getattr(_test, n) for n in dir(_test) if not n.startswith("__")})
