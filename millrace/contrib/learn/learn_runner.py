"""`tf.contrib.learn.learn_runner`. Re-exports only."""

from millrace.contrib.learn.experiment import run

__all__ = ["run"]
