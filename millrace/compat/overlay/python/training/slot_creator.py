"""What programs take from TensorFlow's python.training.slot_creator that has no public name."""

from millrace.training.optimizers.slots import (
    create_slot,
    create_slot_with_initializer,
    create_zeros_slot,
)
