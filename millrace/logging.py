"""`tf.logging`; see `millrace.platform.logging`."""

from millrace.platform.logging import *  # noqa: F403
