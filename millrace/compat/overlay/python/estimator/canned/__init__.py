"""What programs take from TensorFlow's python.estimator.canned that has no public name."""
