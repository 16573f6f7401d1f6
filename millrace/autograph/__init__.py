"""tf.autograph, as far as it says what is left alone: Python's control flow is never translated."""

from millrace.autograph import experimental

__all__ = ["experimental"]
