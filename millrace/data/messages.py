"""Declares protocol buffer messages in a table, without generated code.

`declare` takes messages in the notation of a .proto file, one field a line, and returns classes
that are like generated ones in every way and put the same bytes on the wire. They live in a pool
of their own: TensorFlow's own messages of the same names may be loaded in the same process.
"""

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: getattr(_Field, f"TYPE_{name.upper()}")
    for name in (
        "double float int64 uint64 int32 uint32 fixed64 fixed32 sfixed64 sfixed32 sint64 sint32 "
        "bool string bytes"
    ).split()
}
# `repeated float value = 1`, `map<string, Feature> feature = 1`, `Feature f = 2 oneof kind`
_FIELD = re.compile(
    r"(?:(?P<repeated>repeated)\s+)?"
    r"(?:map<\s*(?P<key>\w+)\s*,\s*(?P<value>[\w.]+)\s*>|(?P<type>[\w.]+))\s+"
    r"(?P<name>\w+)\s*=\s*(?P<number>\d+)"
    r"(?:\s+oneof\s+(?P<oneof>\w+))?"
)
_ENUM_VALUE = re.compile(r"(?P<name>\w+)\s*=\s*(?P<number>-?\d+)")

_pool = descriptor_pool.DescriptorPool()


def declare(
    file_name: str, package: str, table: Mapping[str, str], *, pool: Any = None
) -> dict[str, Any]:
    """Makes message classes from a table.

    Args:
      file_name: Name of the .proto file that this stands for; may be declared once.
      package: Its package, for example "tensorflow".
      table: Name of a message to its fields, a line each as in proto3 (a field of a oneof says
        so at its end: `Feature f = 2 oneof kind`); `enum Name` to the values of an enum. A field
        may have the type of any message or enum in this table, or of one of the same package
        that was declared before; one with a dot in it is the full name of a type in the pool.
      pool: Where the messages live; by default a pool of their own.

    Returns:
      Name to class for the messages, name to enum descriptor for the enums.

    Raises:
      ValueError: A line cannot be read, or a type is not known.
    """
    pool = _pool if pool is None else pool
    file = descriptor_pb2.FileDescriptorProto(name=file_name, package=package, syntax="proto3")
    enums = {name.removeprefix("enum ") for name in table if name.startswith("enum ")}
    messages = {name for name in table if not name.startswith("enum ")}
    for name, body in table.items():
        lines = [line.strip() for line in textwrap.dedent(body).splitlines() if line.strip()]
        if name.startswith("enum "):
            _add_enum(file, name.removeprefix("enum "), lines)
        else:
            message = file.message_type.add(name=name)
            for line in lines:
                _add_field(file, message, line, messages, enums, pool)
    try:
        pool.Add(file)
        descriptor = pool.FindFileByName(file_name)
    except (TypeError, KeyError) as error:
        raise ValueError(f"messages of {file_name} cannot be declared: {error}") from error
    classes = {
        name: message_factory.GetMessageClass(found)
        for name, found in descriptor.message_types_by_name.items()
    }
    return {**classes, **descriptor.enum_types_by_name}


def _add_enum(file: Any, name: str, lines: list[str]) -> None:
    enum = file.enum_type.add(name=name)
    for line in lines:
        parsed = _ENUM_VALUE.fullmatch(line)
        if parsed is None:
            raise ValueError(f"enum {name}: cannot read {line!r}, expected `NAME = number`")
        enum.value.add(name=parsed["name"], number=int(parsed["number"]))


def _add_field(
    file: Any, message: Any, line: str, messages: set[str], enums: set[str], pool: Any
) -> None:
    parsed = _FIELD.fullmatch(line)
    if parsed is None:
        raise ValueError(
            f"message {message.name}: cannot read {line!r}, expected for example "
            "`repeated float value = 1` or `Feature f = 2 oneof kind`"
        )
    field = message.field.add(name=parsed["name"], number=int(parsed["number"]))
    if parsed["key"]:
        # On the wire a map is a repeated message of key and value; the nested type says so.
        entry_name = "".join(word[:1].upper() + word[1:] for word in parsed["name"].split("_"))
        entry_name += "Entry"
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        for number, (name, type_name) in enumerate(
            (("key", parsed["key"]), ("value", parsed["value"])), start=1
        ):
            part = entry.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
            _set_type(file, part, type_name, messages, enums, pool)
        field.label = _Field.LABEL_REPEATED
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{file.package}.{message.name}.{entry_name}"
        return
    field.label = _Field.LABEL_REPEATED if parsed["repeated"] else _Field.LABEL_OPTIONAL
    _set_type(file, field, parsed["type"], messages, enums, pool)
    if parsed["oneof"]:
        oneofs = [each.name for each in message.oneof_decl]
        if parsed["oneof"] not in oneofs:
            message.oneof_decl.add(name=parsed["oneof"])
            oneofs.append(parsed["oneof"])
        field.oneof_index = oneofs.index(parsed["oneof"])


def _set_type(
    file: Any, field: Any, type_name: str, messages: set[str], enums: set[str], pool: Any
) -> None:
    if type_name in _SCALARS:
        field.type = _SCALARS[type_name]
        return
    full_name = type_name if "." in type_name else f"{file.package}.{type_name}"
    field.type_name = f".{full_name}"
    if type_name in messages or type_name in enums:
        field.type = _Field.TYPE_MESSAGE if type_name in messages else _Field.TYPE_ENUM
        return
    for kind, find in (
        (_Field.TYPE_MESSAGE, pool.FindMessageTypeByName),
        (_Field.TYPE_ENUM, pool.FindEnumTypeByName),
    ):
        try:
            declared_in = find(full_name).file.name
        except KeyError:
            continue
        field.type = kind
        if declared_in not in file.dependency:
            file.dependency.append(declared_in)
        return
    raise ValueError(
        f"field {field.name} has the type {type_name}, which is neither a scalar nor declared in "
        f"package {file.package}"
    )
