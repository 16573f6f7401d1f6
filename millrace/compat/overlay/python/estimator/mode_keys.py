"""What programs take from TensorFlow's python.estimator.mode_keys without a public name."""

from millrace.estimator.mode_keys import ModeKeys
