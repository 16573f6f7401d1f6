"""What programs take from TensorFlow's core.lib.core.error_codes_pb2 that has no public name."""

from millrace.core import errors as _errors

OK = 0
globals().update(
    {
        n: getattr(_errors, n)
        for n in dir(_errors)
        if n.isupper() and isinstance(getattr(_errors, n), int)
    }
)
