"""TensorFlow's python.estimator.canned.optimizers."""

from millrace.estimator.canned.optimizers import *
