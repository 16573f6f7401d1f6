"""TensorFlow's python.util.tf_contextlib: context managers that keep their function's signature."""

from contextlib import contextmanager

__all__ = ["contextmanager"]
