"""What programs take from TensorFlow's python.ops.array_ops that has no public name."""

from typing import Any

from millrace.core import dtypes
from millrace.ops.array import shape as _shapes
from millrace.ops.array.sets import listdiff


def shape_internal(
    input: Any, name: str | None = None, optimize: bool = True, out_type: Any = dtypes.int32
) -> Any:
    """`tf.shape`, which a constant may stand for or not."""
    return _shapes.shape_of(input, name, out_type, optimize)


def size_internal(
    input: Any, name: str | None = None, optimize: bool = True, out_type: Any = dtypes.int32
) -> Any:
    """`tf.size`, which a constant may stand for or not."""
    return _shapes.size_of(input, name, out_type, optimize)


def rank_internal(input: Any, name: str | None = None, optimize: bool = True) -> Any:
    """`tf.rank`, which a constant may stand for or not."""
    return _shapes.rank_of(input, name, optimize)
