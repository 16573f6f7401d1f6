"""Message classes that an old protoc generated are imported as if it were a new one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from millrace.compat import older_messages

_OLD = """
import sys
_b = sys.version_info[0] < 3 and (lambda x: x) or (lambda x: x.encode('latin1'))
from google.protobuf import descriptor as _descriptor
DESCRIPTOR = _descriptor.FileDescriptor(
  name='{name}.proto', package='{name}', syntax='proto3', serialized_pb=_b({text!r}))
_POINT = _descriptor.Descriptor(name='Point')
"""


def _file(name: str) -> str:
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=name, syntax="proto3")
    message = file.message_type.add(name="Point")
    message.field.add(
        name="x",
        number=1,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
        label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
    )
    text = file.SerializeToString().decode("latin-1")
    return _OLD.format(name=name, text=text)


def test_an_old_generated_module_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "older_points_pb2.py").write_text(_file("older_points"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    older_messages.install()
    module = importlib.import_module("older_points_pb2")
    monkeypatch.delitem(sys.modules, "older_points_pb2")
    point = module.Point(x=3)
    assert module.Point.FromString(point.SerializeToString()).x == 3
    assert module.DESCRIPTOR.name == "older_points.proto"


def test_other_sources_are_left_alone() -> None:
    assert older_messages.described("x = 1") is None
    new = "DESCRIPTOR = pool.Default().AddSerializedFile(b'')  # serialized_pb"
    assert older_messages.described(new) is None
