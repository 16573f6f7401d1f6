"""TensorFlow's python.estimator.canned.metric_keys."""

from millrace.estimator.heads.keys import MetricKeys
