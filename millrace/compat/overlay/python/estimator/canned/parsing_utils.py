"""TensorFlow's python.estimator.canned.parsing_utils."""

from millrace.estimator.canned.parsing_utils import *
