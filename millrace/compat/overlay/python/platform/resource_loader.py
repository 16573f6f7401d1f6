"""What programs take from TensorFlow's python.platform.resource_loader that has no public name."""

import millrace.resource_loader as _loader

globals().update({n: getattr(_loader, n) for n in dir(_loader) if not n.startswith("__")})
