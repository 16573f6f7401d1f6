"""OpDef messages as plain rows, so that TensorFlow's and Millrace's can be compared and stored.

Works on the messages of either package: only field names are used. What a row leaves out
(descriptions, deprecation, allowed values) may differ.
"""

from __future__ import annotations

from typing import Any

_LIST_FIELDS = ("s", "i", "f", "b", "type", "shape", "tensor", "func")


def row(op_def: Any) -> dict[str, Any]:
    """Inputs and outputs as [name, type, is reference], attributes as [type, default or None]."""
    return {
        "inputs": [_argument(arg) for arg in op_def.input_arg],
        "outputs": [_argument(arg) for arg in op_def.output_arg],
        "attrs": {attr.name: _attribute(attr) for attr in op_def.attr},
        "stateful": op_def.is_stateful,
    }


def _argument(arg: Any) -> list[Any]:
    if arg.type_list_attr:
        kind = f"[{arg.type_list_attr}]"
    else:
        kind = arg.type_attr or f"type {arg.type}"
        if arg.number_attr:
            kind = f"{arg.number_attr} * {kind}"
    return [arg.name, kind, arg.is_ref]


def _attribute(attr: Any) -> list[Any]:
    default = _value(attr.default_value) if attr.HasField("default_value") else None
    return [attr.type, default]


def _value(value: Any) -> Any:
    """An AttrValue as JSON; a list is a list of its items."""
    field = value.WhichOneof("value")
    if field != "list":
        return [field, _scalar(getattr(value, field), field)]
    for name in _LIST_FIELDS:
        items = getattr(value.list, name)
        if len(items):
            return ["list", [_scalar(item, name) for item in items]]
    return ["list", []]


def _scalar(item: Any, field: str) -> Any:
    if field == "s":
        return item.decode("latin-1")
    if field == "f":
        return float(f"{item:.7g}")
    if field == "shape":
        return None if item.unknown_rank else [dim.size for dim in item.dim]
    if field == "tensor":
        return [item.dtype, [dim.size for dim in item.tensor_shape.dim]]
    if field == "func":
        return item.name
    return item
