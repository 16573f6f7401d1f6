"""The tutorials that TensorFlow 1 shipped as importable modules."""
