"""TensorFlow's python.estimator.canned.linear."""

from millrace.estimator.canned.linear import *
from millrace.estimator.canned.linear import _linear_model_fn
