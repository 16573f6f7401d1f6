"""`tf.flags`; see `millrace.platform.flags`."""

from millrace.platform.flags import *  # noqa: F403
