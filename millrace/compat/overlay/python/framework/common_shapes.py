"""What programs take from TensorFlow's python.framework.common_shapes."""

from typing import Any

from millrace.core.tensor_shape import as_shape, unknown_shape
from millrace.ops.array.shape import broadcast_static_shape as broadcast_shape


def is_broadcast_compatible(shape_x: Any, shape_y: Any) -> bool:
    """Whether two shapes go together."""
    try:
        broadcast_shape(as_shape(shape_x), as_shape(shape_y))
    except ValueError:
        return False
    return True


def unchanged_shape(op: Any) -> list[Any]:
    """The shape of the first input."""
    return [op.inputs[0].get_shape()]


def scalar_shape(op: Any) -> list[Any]:
    """A scalar's shape."""
    return [as_shape([])]


def unknown_shape_of(op: Any) -> list[Any]:
    """Unknown shapes for all outputs."""
    return [unknown_shape() for _ in op.outputs]
