"""What programs take from TensorFlow's python.feature_column that has no public name."""
