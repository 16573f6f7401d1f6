"""What programs take from TensorFlow's python.training.training_util that has no public name."""

from millrace.training.global_step import get_global_step_read as _get_global_step_read
from millrace.training.global_step import (
    get_or_create_global_step_read as _get_or_create_global_step_read,
)
