"""What programs take from TensorFlow's python.training.moving_averages that has no public name."""

from millrace.training.optimizers.moving_averages import assign_moving_average
