"""What programs take from TensorFlow's python.summary.summary that has no public name."""

import millrace.summary as _summary

globals().update({n: getattr(_summary, n) for n in _summary.__all__})
