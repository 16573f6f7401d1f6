"""`tf.app`: starts a program. `tf.app.flags` is `tf.flags`."""

from millrace.platform import flags
from millrace.platform.app import run

__all__ = ["flags", "run"]
