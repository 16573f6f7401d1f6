"""What programs take from TensorFlow's python.platform.googletest that has no public name."""

from unittest import TestCase, TestSuite, mock, skip, skipIf, skipUnless

from millrace.testing.environment import get_temp_dir as GetTempDir
from millrace.testing.environment import test_src_dir_path
from millrace.testing.main import main
from millrace.testing.stubs import StubOutForTesting
