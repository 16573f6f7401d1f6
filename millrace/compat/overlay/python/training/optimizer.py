"""What programs take from TensorFlow's python.training.optimizer that has no public name."""

from millrace.training.optimizers.optimizer import (
    deduplicate_indexed_slices as _deduplicate_indexed_slices,
)
