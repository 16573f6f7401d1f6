"""The tutorials that TensorFlow 1 shipped as importable modules."""

from millrace.examples.tutorials import mnist

__all__ = ["mnist"]
