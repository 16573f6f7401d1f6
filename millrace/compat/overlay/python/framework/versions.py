"""What programs take from TensorFlow's python.framework.versions that has no public name."""

from millrace.platform import version

__version__ = VERSION = version.TENSORFLOW_VERSION
