"""`tf.sets`: operations on sets in the last dimension of tensors."""

from millrace.ops.sparse.sets import set_difference, set_intersection, set_size, set_union
from millrace.ops.sparse.sets import set_difference as difference
from millrace.ops.sparse.sets import set_intersection as intersection
from millrace.ops.sparse.sets import set_size as size
from millrace.ops.sparse.sets import set_union as union

__all__ = [
    "difference",
    "intersection",
    "set_difference",
    "set_intersection",
    "set_size",
    "set_union",
    "size",
    "union",
]
