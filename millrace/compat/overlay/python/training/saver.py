"""What programs take from TensorFlow's python.training.saver that has no public name."""

from millrace.training.checkpoint.saver_builder import BaseSaverBuilder, BulkSaverBuilder
