"""TensorFlow's python.estimator.canned.prediction_keys."""

from millrace.estimator.heads.keys import PredictionKeys
