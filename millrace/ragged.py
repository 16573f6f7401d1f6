"""`tf.ragged`: ragged tensors. Re-exports only."""

from millrace.ops.ragged.factories import (
    constant,
    constant_value,
    placeholder,
)
from millrace.ops.ragged.factories import (
    ragged_range as range,
)
from millrace.ops.ragged.functions import (
    boolean_mask,
    stack,
    stack_dynamic_partitions,
)
from millrace.ops.ragged.ragged_tensor import (
    RaggedTensorValue,
    map_flat_values,
    row_splits_to_segment_ids,
    segment_ids_to_row_splits,
)

__all__ = [
    "RaggedTensorValue",
    "boolean_mask",
    "constant",
    "constant_value",
    "map_flat_values",
    "placeholder",
    "range",
    "row_splits_to_segment_ids",
    "segment_ids_to_row_splits",
    "stack",
    "stack_dynamic_partitions",
]
