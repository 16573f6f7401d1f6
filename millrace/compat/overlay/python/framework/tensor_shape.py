"""What programs take from TensorFlow's python.framework.tensor_shape that has no public name."""

from millrace.core.tensor_shape import (
    as_dimension,
    as_shape,
    matrix,
    scalar,
    unknown_shape,
    vector,
)
