"""`tf.manip`."""

from millrace.ops.array.blocks import batch_to_space_nd, space_to_batch_nd
from millrace.ops.array.gather import gather_nd, scatter_nd
from millrace.ops.array.layout import reverse, roll, tile
from millrace.ops.array.shape import reshape

__all__ = [
    "batch_to_space_nd",
    "gather_nd",
    "reshape",
    "reverse",
    "roll",
    "scatter_nd",
    "space_to_batch_nd",
    "tile",
]
