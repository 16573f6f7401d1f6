"""Python's brackets on tensors: ``x[1:, ..., i]`` becomes a StridedSlice.

Registers `__getitem__` of `Tensor`; variables use `slice_helper`.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import Dimension, TensorShape
from millrace.graph.convert import convert_to_tensor, dtype_of, is_tensor_like
from millrace.graph.defaults import name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import join as array_join
from millrace.ops.array import select as array_select
from millrace.ops.array import slicing as array_slicing
from millrace.ops.array.constant import constant

__all__ = ["newaxis"]

newaxis = None


def _require_index(value: Any) -> Any:
    """`value`, if it may be an index or an end of a range.

    Raises:
      TypeError: It may not.
    """
    found = getattr(value, "dtype", None)
    if isinstance(value, numbers.Integral | Dimension):
        return value
    if isinstance(value, np.ndarray):
        if value.ndim == 0 and np.issubdtype(value.dtype, np.integer):
            return value
    elif is_tensor_like(value) and found is not None:
        base = found.base_dtype
        rank = getattr(value, "shape", TensorShape(None)).ndims
        if base in (dtypes.int16, dtypes.int32, dtypes.int64) and rank in (None, 0):
            return value
    raise TypeError(
        "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar "
        f"tf.int32/tf.int64 tensors are valid indices, got {value!r}"
    )


def _is_mask(spec: Any) -> bool:
    if isinstance(spec, bool):
        return True
    if isinstance(spec, np.ndarray):
        return spec.dtype == bool
    return is_tensor_like(spec) and dtype_of(spec) == dtypes.bool


def slice_helper(tensor: Any, slice_spec: Any, var: Any = None) -> Tensor:
    """What ``tensor[slice_spec]`` means; `Tensor` and variables share it.

    Args:
      tensor: The tensor.
      slice_spec: Integers, scalar tensors, ranges, ``...``, None, a tuple of these, or a
        boolean mask.
      var: The variable whose value `tensor` is.

    Raises:
      TypeError: Something else is among them.
    """
    if _is_mask(slice_spec):
        return array_select.boolean_mask(tensor, slice_spec)
    entries = list(slice_spec) if isinstance(slice_spec, list | tuple) else [slice_spec]
    begin: list[Any] = []
    end: list[Any] = []
    strides: list[Any] = []
    masks = dict.fromkeys(array_slicing.Masks._fields, 0)
    for i, entry in enumerate(entries):
        bit = 1 << i
        if isinstance(entry, slice):
            first, last, step = entry.start, entry.stop, entry.step
            kind = None
            if first is not None:
                begin.append(_require_index(first))
                kind = getattr(first, "dtype", None) if is_tensor_like(first) else kind
            else:
                begin.append(0)
                masks["begin"] |= bit
            if last is not None:
                end.append(_require_index(last))
                kind = getattr(last, "dtype", kind) if is_tensor_like(last) else kind
            else:
                end.append(0)
                masks["end"] |= bit
            if step is not None:
                strides.append(_require_index(step))
            else:
                strides.append(1 if kind is None else constant(1, kind.base_dtype))
        elif entry is Ellipsis:
            begin.append(0)
            end.append(0)
            strides.append(1)
            masks["ellipsis"] |= bit
        elif entry is None:
            begin.append(0)
            end.append(0)
            strides.append(1)
            masks["new_axis"] |= bit
        else:
            position = _require_index(entry)
            if isinstance(position, Dimension):
                position = int(position)
            begin.append(position)
            end.append(position + 1)
            is_wide = is_tensor_like(position) and position.dtype.base_dtype == dtypes.int64
            strides.append(constant(1, dtypes.int64) if is_wide else 1)
            masks["shrink_axis"] |= bit
    with name_scope(None, "strided_slice", [tensor, *begin, *end, *strides]) as scope:
        vectors: list[Any]
        if begin:
            vectors = [array_join.stack(part) for part in (begin, end, strides)]
            if any(v.dtype == dtypes.int64 for v in vectors):
                vectors = [
                    v if v.dtype == dtypes.int64 else cast.cast(v, dtypes.int64) for v in vectors
                ]
        else:
            empty = constant([], dtypes.int32)
            vectors = [empty, empty, empty]
        named: dict[str, Any] = {f"{field}_mask": mask for field, mask in masks.items()}
        return array_slicing.strided_slice(
            tensor, vectors[0], vectors[1], vectors[2], var=var, name=scope, **named
        )


def _getitem(self: Tensor, slice_spec: Any) -> Tensor:
    return slice_helper(convert_to_tensor(self), slice_spec)


Tensor.overload("__getitem__", _getitem)
