"""What programs take from TensorFlow's python.framework.versions that has no public name."""

from millrace.platform.version import TENSORFLOW_VERSION as __version__
