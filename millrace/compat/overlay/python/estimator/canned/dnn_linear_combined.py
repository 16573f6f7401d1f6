"""TensorFlow's python.estimator.canned.dnn_linear_combined."""

from millrace.estimator.canned.dnn_linear_combined import *
from millrace.estimator.canned.dnn_linear_combined import _dnn_linear_combined_model_fn
