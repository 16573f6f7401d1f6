"""TensorFlow 1's MNIST tutorial: `input_data` (the data sets) and `mnist` (the network)."""

from millrace.examples.tutorials.mnist import input_data, mnist

__all__ = ["input_data", "mnist"]
