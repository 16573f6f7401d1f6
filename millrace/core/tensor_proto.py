"""TensorProto in and out: the encoding of constants in graphs and of values on the wire.

A TensorProto holds its elements in one of two ways: `tensor_content`, the bytes of a row-major
array; or a typed list (`float_val`, `int_val`, ...), which may be shorter than the tensor, its
last value then standing for all that follow. Writing follows TensorFlow's choice between the two
byte for byte; reading takes both for every type.

Must not: hold resource and variant handles, which have no value outside their process.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tensorboard.compat.proto import tensor_pb2

from millrace.core import dtypes
from millrace.core.convert import Array, fill, is_filled, to_ndarray
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape

TensorProto = tensor_pb2.TensorProto

# Beyond this a protobuf message cannot be serialized.
_MAX_CONTENT = 1 << 31

# The typed list of each DType. Narrow integers share int_val, 16-bit floats half_val (their bits).
_FIELD: dict[DType, str] = {
    dtypes.float32: "float_val",
    dtypes.float64: "double_val",
    dtypes.int32: "int_val",
    dtypes.uint8: "int_val",
    dtypes.int16: "int_val",
    dtypes.int8: "int_val",
    dtypes.string: "string_val",
    dtypes.complex64: "scomplex_val",
    dtypes.int64: "int64_val",
    dtypes.bool_: "bool_val",
    dtypes.qint8: "int_val",
    dtypes.quint8: "int_val",
    dtypes.qint32: "int_val",
    dtypes.bfloat16: "half_val",
    dtypes.qint16: "int_val",
    dtypes.quint16: "int_val",
    dtypes.uint16: "int_val",
    dtypes.complex128: "dcomplex_val",
    dtypes.float16: "half_val",
    dtypes.uint32: "uint32_val",
    dtypes.uint64: "uint64_val",
    dtypes.float8_e5m2: "float8_val",
    dtypes.float8_e4m3fn: "float8_val",
    dtypes.float8_e4m3fnuz: "float8_val",
    dtypes.float8_e4m3b11fnuz: "float8_val",
    dtypes.float8_e5m2fnuz: "float8_val",
    dtypes.int4: "int_val",
    dtypes.uint4: "int_val",
    dtypes.int2: "int_val",
    dtypes.uint2: "int_val",
    dtypes.float4_e2m1fn: "float8_val",
}

# Types that TF always writes as typed lists.
_NEVER_CONTENT = frozenset(
    (
        dtypes.string,
        dtypes.bool_,
        dtypes.complex64,
        dtypes.complex128,
        dtypes.uint16,
        dtypes.int4,
        dtypes.uint4,
        dtypes.int2,
        dtypes.uint2,
    )
)


#: So many elements of a list are copied at a time.
_PIECE = 1 << 16


def make_tensor_proto(
    values: Any,
    dtype: Any = None,
    shape: Any = None,
    verify_shape: bool = False,
    allow_broadcast: bool = False,
) -> Any:
    """Encodes a value as a TensorProto.

    Args:
        values: What `to_ndarray` takes; a TensorProto is handed back as it is.
        dtype: The type, or None to infer it.
        shape: The shape, or None for that of the values. A larger one is filled with the last
            value, without writing it out.
        verify_shape: Whether the values must have exactly this shape.
        allow_broadcast: Whether only one value (not several) may be repeated to fill `shape`.

    Raises:
        TypeError: If the values do not fit the dtype or (when asked to look) the shape.
        ValueError: If lists are not rectangular, the shape is too small, or the content is
            larger than a message can be.
    """
    if allow_broadcast and verify_shape:
        raise ValueError("allow_broadcast and verify_shape are not both allowed.")
    if isinstance(values, TensorProto):
        return values

    if shape is None:
        array = to_ndarray(values, dtype)
        sizes = array.shape
    else:
        sizes = tuple(int(size) for size in shape)
        array = to_ndarray(values, dtype, sizes if math.prod(sizes) == 0 else None)
        _check_shape(array, sizes, verify_shape, allow_broadcast)

    kind = dtypes.as_dtype(array.dtype)
    proto = TensorProto(dtype=kind.as_datatype_enum, tensor_shape=TensorShape(sizes).as_proto())
    count = math.prod(sizes)
    if is_filled(array):
        _write_typed_list(proto, array.flat[:1], kind)
    elif array.size == count > 1 and kind not in _NEVER_CONTENT:
        if array.nbytes >= _MAX_CONTENT:
            raise ValueError(
                "Cannot create a tensor proto whose content is larger than 2GB: a "
                f"{kind.name} tensor of shape {list(sizes)} has {array.nbytes} bytes."
            )
        proto.tensor_content = array.tobytes()
    elif array.size:
        _write_typed_list(proto, array.reshape(-1), kind)
    return proto


def _check_shape(
    array: Array, sizes: tuple[int, ...], verify_shape: bool, allow_broadcast: bool
) -> None:
    count = math.prod(sizes)
    if allow_broadcast:
        fits = array.shape in ((), (1,)) or array.size == count
    else:
        fits = not verify_shape or array.shape == sizes
    if not fits:
        raise TypeError(f"Expected Tensor's shape: {sizes}, but got {array.shape}.")
    if array.size > count and not allow_broadcast:
        raise ValueError(
            f"Too many elements provided. Takes at most {count}, but got {array.size}."
        )


def _write_typed_list(proto: Any, flat: Array, kind: DType) -> None:
    field = _FIELD[kind]
    if field == "float8_val":
        proto.float8_val = flat.tobytes()
        return
    if field == "half_val":
        flat = flat.view(np.uint16)
    elif kind.is_complex:
        flat = flat.view(kind.real_dtype.as_numpy_dtype)
    elif kind.is_quantized:
        flat = flat[kind.name]
    elif field == "int_val":
        flat = flat.astype(np.int32)
    # A piece at a time: nobody else can run Python while one is copied.
    written = getattr(proto, field)
    for start in range(0, len(flat), _PIECE):
        written.extend(flat[start : start + _PIECE].tolist())


def make_ndarray(tensor: Any, *, compact: bool = False) -> Array:
    """Decodes a TensorProto to a new array; strings to an object array of bytes.

    Args:
        tensor: The message.
        compact: Whether a large array of one value may be read-only, and take no memory.

    Raises:
        TypeError: If the proto's type has no values (resource, variant) or is unknown.
        ValueError: If the shape is unknown or does not fit the content.
    """
    sizes = tuple(dim.size for dim in tensor.tensor_shape.dim)
    if tensor.tensor_shape.unknown_rank or any(size < 0 for size in sizes):
        raise ValueError(f"A TensorProto needs a known shape, got {tensor.tensor_shape}.")
    kind = dtypes.as_dtype(tensor.dtype).base_dtype
    if kind not in _FIELD:
        raise TypeError(f"Unsupported tensor type: {kind.name} tensors have no value in NumPy.")

    if tensor.tensor_content:
        return _read_content(tensor.tensor_content, kind, sizes)
    flat = _read_typed_list(tensor, kind)
    try:
        return fill(flat, sizes, compact=compact)
    except ValueError as error:
        raise ValueError(f"A TensorProto of shape {list(sizes)} is malformed: {error}") from None


def _read_content(content: bytes, kind: DType, sizes: tuple[int, ...]) -> Array:
    count = math.prod(sizes)
    if kind is dtypes.string:
        return _read_string_list(content, count).reshape(sizes)
    wanted = count * kind.size
    if len(content) != wanted:
        raise ValueError(
            f"A {kind.name} TensorProto of shape {list(sizes)} needs {wanted} bytes of content, "
            f"got {len(content)}."
        )
    return np.frombuffer(content, kind.as_numpy_dtype).reshape(sizes).copy()


def _read_string_list(content: bytes, count: int) -> Array:
    """Decodes strings in tensor_content: the lengths as varints, then the bytes of all."""
    if count > len(content):
        raise ValueError(f"The content of a string TensorProto ends early ({count} wanted).")
    lengths = []
    position = 0
    for _ in range(count):
        length = shift = 0
        while True:
            if position >= len(content):
                raise ValueError(
                    f"The content of a string TensorProto ends early ({count} wanted)."
                )
            byte = content[position]
            position += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        lengths.append(length)
    if position + sum(lengths) != len(content):
        raise ValueError(
            f"The content of a string TensorProto has {len(content)} bytes, its lengths say "
            f"{position + sum(lengths)}."
        )
    strings = np.empty(count, object)
    for index, length in enumerate(lengths):
        strings[index] = content[position : position + length]
        position += length
    return strings


def _read_typed_list(tensor: Any, kind: DType) -> Array:
    numpy_type = kind.as_numpy_dtype
    values = getattr(tensor, _FIELD[kind])
    if kind is dtypes.string:
        strings = np.empty(len(values), object)
        for start in range(0, len(values), _PIECE):
            strings[start : start + _PIECE] = values[start : start + _PIECE]
        return strings
    if isinstance(values, bytes):
        return np.frombuffer(values, np.uint8).view(numpy_type)
    if kind.is_complex:
        return np.array(values, kind.real_dtype.as_numpy_dtype).view(numpy_type)
    if _FIELD[kind] == "half_val":
        return np.array(values, np.int32).astype(np.uint16).view(numpy_type)
    if kind.is_quantized:
        return np.array(values, np.int32).astype(numpy_type[kind.name]).view(numpy_type)
    if _FIELD[kind] == "int_val":
        return np.array(values, np.int32).astype(numpy_type)
    return np.array(values, numpy_type)
