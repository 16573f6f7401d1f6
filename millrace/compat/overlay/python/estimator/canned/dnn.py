"""TensorFlow's python.estimator.canned.dnn."""

from millrace.estimator.canned.dnn import *
from millrace.estimator.canned.dnn import _dnn_model_fn
