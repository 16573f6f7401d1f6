"""What programs take from inside TensorFlow's python.keras."""
