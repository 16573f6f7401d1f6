"""TensorFlow's python.estimator.canned.baseline."""

from millrace.estimator.canned.baseline import *
