"""What programs take from TensorFlow's python.platform.app that has no public name."""

from absl.flags import FLAGS

from millrace import flags
from millrace.app import run
