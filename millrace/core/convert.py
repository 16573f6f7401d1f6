"""From Python values to NumPy arrays, by TensorFlow's rules for constants and for feeds.

Constants (`to_ndarray`) infer: Python floats become float32, ints int32 if they fit, text becomes
bytes; with a dtype given, Python values are checked against it, NumPy arrays are cast.
Feeds (`feed_to_ndarray`) have their dtype from the placeholder and are cast as NumPy casts.

Invariants: the result is an ndarray (0-d for a scalar) in native byte order, whose element type
is the DType's `as_numpy_dtype`; string tensors are object arrays of `bytes`. The result may share
memory with the argument.

Must not: know about tensors of a graph. Callers take those out of nested lists first.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import Dimension

Array = np.ndarray[Any, Any]

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1

# ml_dtypes' scalars are numbers that neither Python's nor NumPy's number classes include.
_ML_FLOATS = tuple(
    t.as_numpy_dtype
    for t in dtypes._BY_ENUM.values()
    if t.is_floating and t.as_numpy_dtype.__module__ == ml_dtypes.__name__
)
_ML_INTEGERS = (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)
_INTEGERS = (numbers.Integral, np.integer, Dimension, *_ML_INTEGERS)
_REALS = (numbers.Real, np.integer, np.floating, *_ML_FLOATS, *_ML_INTEGERS)
_COMPLEX = (numbers.Complex, np.number, *_ML_FLOATS, *_ML_INTEGERS)
_BOOLS = (bool, np.bool_)
_TEXT = (str, bytes)


def to_ndarray(
    values: Any, dtype: Any = None, shape: Any = None, *, compact: bool = False
) -> Array:
    """Converts the value of a constant.

    Args:
        values: A Python scalar, a nested list or tuple of scalars, an ndarray, or an array-like.
        dtype: The wanted type (anything `as_dtype` takes), or None to infer it.
        shape: The wanted shape as a sequence of ints, or None for that of the values. If it has
            more elements than the values, the last value is repeated.
        compact: Whether a large array of one value may be read-only, and take no memory.

    Raises:
        TypeError: If the values do not fit the dtype, or fit none.
        ValueError: If lists are not rectangular, there are more values than `shape` has room
            for, or `values` is None.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    if shape is None:
        return _convert(values, wanted)
    sizes = tuple(int(size) for size in shape)
    count = math.prod(sizes)
    # TF ignores the values of an empty constant.
    if count == 0 and not _is_array_like(values):
        return np.empty(sizes, dtypes.float32.as_numpy_dtype if wanted is None else _numpy(wanted))
    return fill(_convert(values, wanted), sizes, compact=compact)


#: Smaller arrays are written out.
_MIN_COMPACT_BYTES = 1 << 16


def is_filled(array: Array) -> bool:
    """Whether an array is large, but one value in memory."""
    return array.nbytes >= _MIN_COMPACT_BYTES and not any(array.strides)


def fill(array: Array, sizes: tuple[int, ...], *, compact: bool = False) -> Array:
    """Gives an array another shape, repeating its last element if the shape has room for more.

    Args:
        array: The array.
        sizes: The shape.
        compact: Whether a large array of one value may be read-only, and take no memory.

    Raises:
        ValueError: If the shape has fewer elements than the array.
    """
    count = math.prod(sizes)
    if array.size == count:
        return array.reshape(sizes)
    if array.size > count:
        raise ValueError(
            f"Too many elements provided. Takes at most {count}, but got {array.size}."
        )
    if compact and array.size == 1 and count * array.itemsize >= _MIN_COMPACT_BYTES:
        return np.broadcast_to(array.reshape(()), sizes)
    filled = np.empty(count, array.dtype)
    filled[: array.size] = array.reshape(-1)
    if array.size:
        filled[array.size :] = filled[array.size - 1]
    else:
        filled[:] = b"" if array.dtype == object else np.zeros((), array.dtype)
    return filled.reshape(sizes)


def feed_to_ndarray(value: Any, dtype: DType) -> Array:
    """Converts the value fed for a tensor of the given type.

    NumPy's casts apply (a fed 1.5 becomes 1 for an int32), except that a Python int must survive.

    Raises:
        TypeError: If an int does not fit, or a string tensor is fed something else than text.
        ValueError: If lists are not rectangular.
    """
    numpy_type = _numpy(dtype)
    if type(value) is np.ndarray and value.dtype.type is numpy_type and value.dtype.isnative:
        return value
    if dtype.base_dtype is dtypes.string:
        if isinstance(value, int):
            raise _unsuitable_feed(value, numpy_type)
        return _to_bytes_array(value)
    if isinstance(value, int):
        array = np.asarray(value).astype(numpy_type)
        if not array.dtype.names and array != value:
            raise _unsuitable_feed(value, numpy_type)
        return array
    try:
        return np.asarray(value, numpy_type)
    except OverflowError:
        # NumPy refuses ints out of range in a list; TF lets them wrap, as C does.
        return np.asarray(value).astype(numpy_type)


def _unsuitable_feed(value: Any, numpy_type: Any) -> TypeError:
    return TypeError(
        f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type "
        f"{numpy_type}. Try explicitly setting the type of the feed tensor to a larger type "
        "(e.g. int64)."
    )


def _numpy(dtype: DType) -> Any:
    if not dtype.is_numpy_compatible:
        raise TypeError(f"A {dtype.name} tensor holds handles: it has no value in NumPy.")
    return dtype.as_numpy_dtype


def _convert(values: Any, dtype: DType | None) -> Array:
    kind = type(values)
    if kind is np.ndarray:
        return _from_array(values, dtype)
    if dtype is None:
        if kind is float:
            return np.array(values, np.float32)
        if kind is bool:
            return np.array(values, np.bool_)
        if kind is int:
            return _from_int(values)
    elif (kind is float and dtype.is_floating) or (
        kind is int and (dtype.is_floating or dtype.is_integer)
    ):
        return _rectangular(values, dtype.as_numpy_dtype)
    if kind is str or kind is bytes:
        if dtype is not None and dtype is not dtypes.string:
            raise _mismatch(values, dtype)
        return np.array(values.encode() if kind is str else values, object)
    if values is None:
        raise ValueError("None values not supported.")
    if _is_array_like(values):
        return _from_array(np.asarray(values), dtype)
    if kind is range:
        values = list(values)
    if dtype is None:
        return _infer(values)
    if not dtype.is_numpy_compatible:
        raise TypeError(
            f"`dtype` {dtype} is not compatible with {_shown(values)}: it holds handles."
        )
    if dtype is dtypes.string:
        for leaf in _leaves(values):
            if not isinstance(leaf, _TEXT) and not _is_text_array(leaf):
                raise _mismatch(leaf, dtype)
        return _to_bytes_array(values)
    _check(values, dtype)
    return _rectangular(values, dtype.as_numpy_dtype)


def _from_array(array: Array, dtype: DType | None) -> Array:
    if dtype is None:
        dtype = dtypes.as_dtype(array.dtype)  # TypeError for what TF has no type for
    elif not dtype.is_numpy_compatible:
        raise TypeError(f"`dtype` {dtype} is not compatible with values of dtype {array.dtype}.")
    if dtype is dtypes.string:
        return _to_bytes_array(array)
    numpy_type = dtype.as_numpy_dtype
    if array.dtype.type is numpy_type and array.dtype.isnative:
        return array
    return array.astype(numpy_type)


def _from_int(value: int) -> Array:
    if _INT32_MIN <= value <= _INT32_MAX:
        return np.array(value, np.int32)
    if _INT64_MIN <= value <= _UINT64_MAX:
        return np.array(value)  # int64, or uint64 beyond its range
    raise _unconvertible(value)


def _infer(values: Any) -> Array:
    # The first leaf decides whether NumPy need look at all; text further in shows in its dtype.
    array = None if isinstance(next(_leaves(values), None), _TEXT) else _rectangular(values, None)
    if array is None or array.dtype.kind in "OSU":
        try:
            return _to_bytes_array(values)
        except TypeError:
            raise _unconvertible(values) from None
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64:
        narrow = array.astype(np.int32)
        return narrow if np.array_equal(narrow, array) else array
    return _from_array(array, None)


def _rectangular(values: Any, numpy_type: Any) -> Array:
    try:
        return np.array(values, numpy_type)
    except OverflowError:
        return np.array(values).astype(numpy_type)  # ints out of range wrap, as in TF
    except ValueError as error:
        raise ValueError(f"Argument must be a dense tensor: {_shown(values)}: {error}") from None


def _leaves(values: Any) -> Iterator[Any]:
    if isinstance(values, (list, tuple)):
        for value in values:
            if isinstance(value, (list, tuple)):
                yield from _leaves(value)
            else:
                yield value
    else:
        yield values


def _check(values: Any, dtype: DType) -> None:
    """Raises TypeError at the first leaf that is not a value of the dtype's kind."""
    if dtype.is_quantized:
        _check_quantized(values, dtype)
        return
    if dtype.is_integer:
        allowed: tuple[Any, ...] = _INTEGERS
    elif dtype.is_floating:
        allowed = _REALS
    elif dtype.is_complex:
        allowed = _COMPLEX
    else:
        allowed = _BOOLS
    types: set[type] = set()
    _collect_types(values, types)
    # Arrays among the leaves count by their elements; else one look at each type is enough.
    if np.ndarray not in types and all(issubclass(kind, allowed) for kind in types):
        return
    for leaf in _leaves(values):
        kind = leaf.dtype.type if isinstance(leaf, np.ndarray) else type(leaf)
        if not issubclass(kind, allowed):
            raise _mismatch(leaf, dtype)


def _collect_types(values: Any, types: set[type]) -> None:
    if not isinstance(values, (list, tuple)):
        types.add(type(values))
        return
    found = set(map(type, values))
    if any(issubclass(kind, (list, tuple)) for kind in found):
        for value in values:
            _collect_types(value, types)
    else:
        types |= found


def _check_quantized(values: Any, dtype: DType) -> None:
    """Quantized elements are one-tuples, as the structured NumPy types want them."""
    if isinstance(values, tuple):
        for value in values:
            if not isinstance(value, _INTEGERS):
                raise _mismatch(value, dtype)
    elif isinstance(values, list):
        for value in values:
            _check_quantized(value, dtype)
    else:
        raise _mismatch(values, dtype)


def _mismatch(value: Any, dtype: DType) -> TypeError:
    return TypeError(
        f"Expected {dtype.name}, got {_shown(value)} of type '{type(value).__name__}' instead."
    )


def _unconvertible(values: Any) -> TypeError:
    return TypeError(
        f"Failed to convert elements of {_shown(values)} to Tensor. "
        "Consider casting elements to a supported type."
    )


def _shown(values: Any) -> str:
    """The value for an error message, cut short: a constant can be a list of millions."""
    text = repr(values)
    return text if len(text) <= 400 else f"{text[:400]}..."


def _is_array_like(values: Any) -> bool:
    if callable(getattr(values, "__array__", None)):
        return True
    if isinstance(getattr(values, "__array_interface__", None), dict):
        return True
    return isinstance(values, (bytearray, memoryview))


def _is_text_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "OSUT"


def as_bytes(text: Any) -> bytes:
    """Returns text as bytes, UTF-8 encoded if it is `str`.

    Raises:
        TypeError: If it is neither `str` nor `bytes`.
    """
    if isinstance(text, bytes):
        return bytes(text)  # also of a NumPy bytes scalar
    if isinstance(text, str):
        return text.encode("utf-8")
    raise TypeError(f"Expected binary or unicode string, got {text!r}")


def _to_bytes_array(values: Any) -> Array:
    """Makes an object array of bytes of (nested lists of) text or an array of text."""
    if isinstance(values, np.ndarray):
        if values.dtype == object and all(type(item) is bytes for item in values.flat):
            return values
        shape = values.shape
        # tolist gives Python strings; iterating would give NumPy's scalars, which are slower.
        items = values.reshape(-1).tolist()
    else:
        shape = _dense_shape(values)
        items = list(_text_leaves(values, shape, 0, values))
    array = np.empty(len(items), object)
    array[:] = [as_bytes(item) for item in items]
    return array.reshape(shape)


def _is_nested(values: Any) -> bool:
    return isinstance(values, (list, tuple)) or (isinstance(values, np.ndarray) and values.ndim > 0)


def _dense_shape(values: Any) -> tuple[int, ...]:
    if not _is_nested(values):
        return ()
    return (len(values), *_dense_shape(values[0])) if len(values) else (0,)


def _text_leaves(values: Any, shape: tuple[int, ...], depth: int, whole: Any) -> Iterator[Any]:
    # NumPy itself must not build this array: it cuts trailing zero bytes off.
    nested = _is_nested(values)
    if nested != (depth < len(shape)) or (nested and len(values) != shape[depth]):
        raise ValueError(
            f"Argument must be a dense tensor: {_shown(whole)}: its first elements say shape "
            f"{list(shape)}, others do not."
        )
    if nested:
        for value in values:
            yield from _text_leaves(value, shape, depth + 1, whole)
    else:
        yield values
