"""`tf.contrib.learn.datasets`: MNIST. Re-exports only."""

from millrace.data import mnist
from millrace.data.mnist import Datasets

__all__ = ["Datasets", "mnist"]
