"""Op signatures in one line of text, parsed into plain values.

The notation states what TensorFlow's OpDef states::

    MatMul(a: T, b: T) -> product: T where transpose_a: bool = false; T: {float32, float64}
    ConcatV2(values: N*T, axis: Tidx) -> output: T where N: int >= 2; Tidx: index = int32
    QueueEnqueueV2(handle: resource, components: [Tcomponents]) where timeout_ms: int = -1
    Assign(ref: ref(T), value: T) -> output_ref: ref(T) where validate_shape: bool = true

An argument's type is a dtype name, a type attribute (``T``), ``N*T`` for N tensors of one
type, ``[Ts]`` for a list of types, or ``ref(...)`` around one of these. A type or number
attribute that is used but not declared after ``where`` is an unrestricted ``type`` or
``int >= 1``. Names such as ``number`` and ``real`` are the groups of `dtypes.TYPE_GROUPS`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from tensorboard.compat.proto import attr_value_pb2, op_def_pb2

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph import attributes

_SCALAR_ATTR_TYPES = frozenset(
    ("int", "float", "bool", "string", "type", "shape", "tensor", "func")
)


#: More tensors in a list are a mistake, or an attack: they are counted by an attribute.
_MAX_TENSORS = 1 << 20


class _Missing:
    """The default of an attribute that has none."""

    def __repr__(self) -> str:
        return "<required>"


MISSING = _Missing()


@dataclasses.dataclass(frozen=True, slots=True)
class ArgSpec:
    """One input or output argument; exactly one of dtype, type_attr, type_list_attr is set."""

    name: str
    dtype: dtypes.DType | None = None
    type_attr: str | None = None
    number_attr: str | None = None
    type_list_attr: str | None = None
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        """Whether the argument stands for a list of tensors."""
        return self.number_attr is not None or self.type_list_attr is not None


@dataclasses.dataclass(frozen=True, slots=True)
class AttrSpec:
    """One attribute: its type, default, least value (or length) and allowed values."""

    name: str
    type: str
    default: Any = MISSING
    minimum: int | None = None
    allowed: tuple[Any, ...] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """An op type's inputs, outputs and attributes."""

    name: str
    inputs: tuple[ArgSpec, ...]
    outputs: tuple[ArgSpec, ...]
    attrs: dict[str, AttrSpec]

    def input_index(self, name: str) -> int:
        """Position of the input argument called `name`."""
        for i, arg in enumerate(self.inputs):
            if arg.name == name:
                return i
        raise KeyError(f"{self.name} has no input named {name!r}")

    def complete(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """`attrs` as stored values, with defaults filled in.

        Raises:
          ValueError: A required attribute is missing.
        """
        stored = {}
        for name, value in attrs.items():
            is_message = isinstance(value, attr_value_pb2.AttrValue)
            stored[name] = attributes.from_proto(value) if is_message else value
        for name, spec in self.attrs.items():
            if name not in stored:
                if spec.default is MISSING:
                    raise ValueError(f"NodeDef missing attr '{name}' from Op<name={self.name}>")
                stored[name] = spec.default
        return stored

    def output_types(self, attrs: Mapping[str, Any]) -> list[dtypes.DType]:
        """The types of all outputs, flattened, given the attributes."""
        return self._flat_types(self.outputs, attrs)

    def input_types(self, attrs: Mapping[str, Any]) -> list[dtypes.DType]:
        """The types of all inputs, flattened, given the attributes."""
        return self._flat_types(self.inputs, attrs)

    def _flat_types(
        self, args: tuple[ArgSpec, ...], attrs: Mapping[str, Any]
    ) -> list[dtypes.DType]:
        types: list[dtypes.DType] = []
        for arg in args:
            if arg.type_list_attr is not None:
                batch = list(attrs[arg.type_list_attr])
            else:
                dtype = arg.dtype if arg.dtype is not None else attrs[arg.type_attr or ""]
                count = attrs[arg.number_attr] if arg.number_attr is not None else 1
                if count > _MAX_TENSORS:
                    raise ValueError(
                        f"Attr '{arg.number_attr}' of Op<name={self.name}> is {count}: an op has "
                        f"at most {_MAX_TENSORS} inputs and outputs of one kind."
                    )
                batch = [dtype] * count
            types.extend(t._as_ref if arg.is_ref else t for t in batch)
        return types

    def input_slices(self, attrs: Mapping[str, Any]) -> list[int | slice]:
        """Where each input argument stands among the flattened inputs."""
        return _slices(self.inputs, attrs)

    def output_slices(self, attrs: Mapping[str, Any]) -> list[int | slice]:
        """Where each output argument stands among the flattened outputs."""
        return _slices(self.outputs, attrs)

    def to_op_def(self, is_stateful: bool = False) -> op_def_pb2.OpDef:
        """This signature as TensorFlow's OpDef message."""
        message = op_def_pb2.OpDef(name=self.name, is_stateful=is_stateful)
        for args, field in ((self.inputs, message.input_arg), (self.outputs, message.output_arg)):
            for arg in args:
                entry = field.add(name=arg.name, is_ref=arg.is_ref)
                if arg.dtype is not None:
                    entry.type = arg.dtype.as_datatype_enum
                if arg.type_attr:
                    entry.type_attr = arg.type_attr
                if arg.number_attr:
                    entry.number_attr = arg.number_attr
                if arg.type_list_attr:
                    entry.type_list_attr = arg.type_list_attr
        for spec in self.attrs.values():
            attr = message.attr.add(name=spec.name, type=spec.type)
            if spec.default is not MISSING:
                attr.default_value.CopyFrom(attributes.to_proto(spec.default, spec.type))
            if spec.minimum is not None:
                attr.has_minimum, attr.minimum = True, spec.minimum
            if spec.allowed is not None:
                element = "type" if isinstance(spec.allowed[0], dtypes.DType) else "string"
                attr.allowed_values.CopyFrom(
                    attributes.to_proto(list(spec.allowed), f"list({element})")
                )
        return message


def _slices(args: tuple[ArgSpec, ...], attrs: Mapping[str, Any]) -> list[int | slice]:
    places: list[int | slice] = []
    start = 0
    for arg in args:
        if not arg.is_list:
            places.append(start)
            start += 1
            continue
        count = (
            attrs[arg.number_attr]
            if arg.number_attr is not None
            else len(attrs[arg.type_list_attr or ""])
        )
        places.append(slice(start, start + count))
        start += count
    return places


def name_in(text: str) -> str:
    """The op type's name in a signature's text, whose rest need not be right."""
    return text.partition("(")[0].strip()


def parse(text: str) -> Signature:
    """Parses the notation described at the top of this module."""
    head, _, tail = text.partition(" where ")
    left, _, outputs_text = (part.strip() for part in head.partition("->"))
    name, bracket, inputs_text = left.partition("(")
    if not bracket or not inputs_text.endswith(")") or not name.isidentifier():
        raise ValueError(f"Not an op signature: {text!r}")
    inputs_text = inputs_text.removesuffix(")")
    if outputs_text.startswith("("):
        outputs_text = outputs_text[1:-1]
    inputs = tuple(_parse_arg(part) for part in _split(inputs_text, ","))
    outputs = tuple(_parse_arg(part) for part in _split(outputs_text, ","))
    attrs = {}
    for part in _split(tail, ";"):
        spec = _parse_attr(part)
        attrs[spec.name] = spec
    for arg in (*inputs, *outputs):
        for attr, kind, least in (
            (arg.number_attr, "int", 1),
            (arg.type_attr, "type", None),
            (arg.type_list_attr, "list(type)", None),
        ):
            if attr is not None and attr not in attrs:
                attrs[attr] = AttrSpec(attr, kind, minimum=least)
    return Signature(name, inputs, outputs, attrs)


def _split(text: str, separator: str) -> list[str]:
    """Splits at `separator` outside of brackets and quotes; drops empty parts."""
    parts, depth, quoted, current = [], 0, False, ""
    for char in text:
        if char == '"':
            quoted = not quoted
        elif not quoted and char in "([{":
            depth += 1
        elif not quoted and char in ")]}":
            depth -= 1
        if char == separator and depth == 0 and not quoted:
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    return [part.strip() for part in parts if part.strip()]


def _parse_arg(text: str) -> ArgSpec:
    name, _, kind = (part.strip() for part in text.partition(":"))
    is_ref = kind.startswith("ref(")
    if is_ref:
        kind = kind[len("ref(") : -1].strip()
    if kind.startswith("["):
        return ArgSpec(name, type_list_attr=kind[1:-1].strip(), is_ref=is_ref)
    number_attr = None
    if "*" in kind:
        number_attr, _, kind = (part.strip() for part in kind.partition("*"))
    if kind in dtypes.TYPE_GROUPS or not _is_dtype_name(kind):
        return ArgSpec(name, type_attr=kind, number_attr=number_attr, is_ref=is_ref)
    return ArgSpec(name, dtype=dtypes.as_dtype(kind), number_attr=number_attr, is_ref=is_ref)


def _is_dtype_name(name: str) -> bool:
    try:
        dtypes.as_dtype(name)
    except TypeError:
        return False
    return True


def _parse_attr(text: str) -> AttrSpec:
    name, _, rest = (part.strip() for part in text.partition(":"))
    kind, default_text = _split_default(rest)
    minimum = None
    if ">=" in kind:
        kind, _, least = (part.strip() for part in kind.partition(">="))
        minimum = int(least)
    is_list = kind.startswith("list(")
    element = kind[len("list(") : -1].strip() if is_list else kind
    allowed: tuple[Any, ...] | None = None
    if element.startswith("{"):
        members = _split(element[1:-1], ",")
        if members[0].startswith('"'):
            allowed, element = tuple(m.strip('"').encode() for m in members), "string"
        else:
            allowed, element = tuple(dtypes.as_dtype(m) for m in members), "type"
    elif element in dtypes.TYPE_GROUPS:
        group = dtypes.TYPE_GROUPS[element]
        allowed = tuple(sorted(group, key=lambda d: d.as_datatype_enum))
        element = "type"
    if element not in _SCALAR_ATTR_TYPES:
        raise ValueError(f"Attribute {text!r}: {element!r} is no attribute type")
    kind = f"list({element})" if is_list else element
    default = MISSING if default_text is None else _parse_value(default_text, kind)
    return AttrSpec(name, kind, default, minimum, allowed)


def _split_default(text: str) -> tuple[str, str | None]:
    """Parts ``int >= 1 = 3`` into ``int >= 1`` and ``3``."""
    match = re.search(r"(?<![<>=])=(?!=)", text)
    if match is None:
        return text.strip(), None
    return text[: match.start()].strip(), text[match.end() :].strip()


def _parse_value(text: str, kind: str) -> Any:
    if kind.startswith("list("):
        element = kind[len("list(") : -1]
        return [_parse_value(part, element) for part in _split(text[1:-1], ",")]
    if kind == "int":
        return int(text)
    if kind == "float":
        return float(text)
    if kind == "bool":
        return {"true": True, "false": False}[text]
    if kind == "string":
        return text.strip('"').encode()
    if kind == "type":
        return dtypes.as_dtype(text)
    if kind == "shape":
        if text == "?":
            return TensorShape(None)
        sizes = [None if p == "?" else int(p) for p in _split(text[1:-1], ",")]
        return TensorShape(sizes)
    if kind == "tensor":  # uint8[255, 0]
        type_name, _, items = text.removesuffix("]").partition("[")
        values = [float(part) for part in _split(items, ",")]
        return np.array(values).astype(dtypes.as_dtype(type_name.strip()).as_numpy_dtype)
    raise ValueError(f"No notation for a default of type {kind}: {text!r}")
