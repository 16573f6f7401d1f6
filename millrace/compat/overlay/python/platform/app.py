"""What programs take from TensorFlow's python.platform.app that has no public name."""

from absl.flags import FLAGS
from millrace.app import run
from millrace import flags
