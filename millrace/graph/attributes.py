"""Attribute values: Python values inside Millrace, AttrValue messages outside.

A stored value is an int, float, bool, bytes (for TF's ``string``), DType, TensorShape,
ndarray (for ``tensor``), NameAttrList message (for ``func``), or a list of these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorboard.compat.proto import attr_value_pb2, tensor_pb2, tensor_shape_pb2

from millrace.core import dtypes
from millrace.core.tensor_proto import make_ndarray, make_tensor_proto
from millrace.core.tensor_shape import TensorShape, as_shape

_LIST_FIELDS = {
    "int": "i",
    "float": "f",
    "bool": "b",
    "string": "s",
    "type": "type",
    "shape": "shape",
    "tensor": "tensor",
    "func": "func",
}


def to_proto(value: Any, kind: str) -> attr_value_pb2.AttrValue:
    """The AttrValue message for a stored `value` of attribute type `kind`."""
    message = attr_value_pb2.AttrValue()
    if kind.startswith("list("):
        element = kind[len("list(") : -1]
        field = getattr(message.list, _LIST_FIELDS[element])
        message.list.SetInParent()
        field.extend(_scalar_to_wire(item, element) for item in value)
        return message
    wire = _scalar_to_wire(value, kind)
    field_name = _LIST_FIELDS[kind]
    if kind in ("shape", "tensor", "func"):
        getattr(message, field_name).CopyFrom(wire)
    else:
        setattr(message, field_name, wire)
    return message


def _scalar_to_wire(value: Any, kind: str) -> Any:
    if kind == "type":
        return value.as_datatype_enum
    if kind == "shape":
        return value.as_proto()
    if kind == "tensor":
        return value if isinstance(value, tensor_pb2.TensorProto) else make_tensor_proto(value)
    if kind == "func" and hasattr(value, "to_name_attr_list"):
        return value.to_name_attr_list()
    return value


def from_proto(message: attr_value_pb2.AttrValue) -> Any:
    """The stored value that an AttrValue message holds."""
    field = message.WhichOneof("value")
    if field == "list":
        for name in _LIST_FIELDS.values():
            items = getattr(message.list, name)
            if len(items):
                return [_scalar_from_wire(item, name) for item in items]
        return []
    if field is None:
        return None
    return _scalar_from_wire(getattr(message, field), field)


def _scalar_from_wire(value: Any, field: str) -> Any:
    if field == "type":
        return dtypes.as_dtype(value)
    if field == "shape":
        return TensorShape(value)
    if field == "tensor":
        return make_ndarray(value, compact=True)
    return value


def infer_kind(value: Any) -> str:
    """The attribute type that a bare Python value most naturally has."""
    if isinstance(value, list | tuple):
        return f"list({infer_kind(value[0]) if value else 'int'})"
    for types, kind in (
        (bool, "bool"),
        (int, "int"),
        (float, "float"),
        ((str, bytes), "string"),
        (dtypes.DType, "type"),
        (TensorShape, "shape"),
        ((np.ndarray, tensor_pb2.TensorProto), "tensor"),
        (attr_value_pb2.NameAttrList, "func"),
    ):
        if isinstance(value, types):
            return kind
    if hasattr(value, "to_name_attr_list"):
        return "func"
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be an attribute value")


def normalize(value: Any, kind: str, where: str) -> Any:
    """Turns what a caller gave for an attribute of type `kind` into its stored form.

    Args:
      value: The caller's value, or an AttrValue message.
      kind: The attribute type, such as ``int`` or ``list(type)``.
      where: Names the attribute in error messages.
    """
    if isinstance(value, attr_value_pb2.AttrValue):
        return from_proto(value)
    if kind.startswith("list("):
        if not isinstance(value, list | tuple):
            raise TypeError(f"Expected list for {where}, got {value!r}")
        element = kind[len("list(") : -1]
        return [_normalize_scalar(item, element, where) for item in value]
    return _normalize_scalar(value, kind, where)


def _normalize_scalar(value: Any, kind: str, where: str) -> Any:
    try:
        return _NORMALIZERS[kind](value)
    except (TypeError, ValueError, KeyError) as error:
        raise TypeError(
            f"Expected {kind} for {where}, got {value!r} of type {type(value).__name__}: {error}"
        ) from error


def _as_int(value: Any) -> int:
    if isinstance(value, str | bytes) or int(value) != value:
        raise TypeError("not a whole number")
    return int(value)


def _as_float(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError("not a number")
    return float(value)


def _as_bool(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError("not a bool")
    return bool(value)


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError("not a string")


def _as_shape_value(value: Any) -> TensorShape:
    if isinstance(value, tensor_shape_pb2.TensorShapeProto):
        return TensorShape(value)
    return as_shape(value)


def _as_tensor_value(value: Any) -> np.ndarray:
    if isinstance(value, tensor_pb2.TensorProto):
        return make_ndarray(value, compact=True)
    if isinstance(value, np.ndarray):
        return value
    raise TypeError("not an ndarray or TensorProto")


def _as_func(value: Any) -> Any:
    if isinstance(value, attr_value_pb2.NameAttrList) or hasattr(value, "to_name_attr_list"):
        return value
    if isinstance(value, str):
        return attr_value_pb2.NameAttrList(name=value)
    raise TypeError("not a function name")


_NORMALIZERS = {
    "int": _as_int,
    "float": _as_float,
    "bool": _as_bool,
    "string": _as_bytes,
    "type": lambda value: dtypes.as_dtype(value).base_dtype,
    "shape": _as_shape_value,
    "tensor": _as_tensor_value,
    "func": _as_func,
}
