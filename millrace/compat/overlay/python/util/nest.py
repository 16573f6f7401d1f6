"""TensorFlow's python.util.nest is what `tf.contrib.framework.nest` is."""

from millrace.contrib.framework.nest import *
from millrace.core.nest import _is_namedtuple
