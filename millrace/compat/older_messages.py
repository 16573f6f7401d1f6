"""Lets programs import message classes that an old protoc generated.

Such a ``*_pb2.py`` makes descriptors by hand, which protobuf has refused since 4.0 ("Descriptors
cannot be created directly"). It also holds the whole file's description in serialized form: the
same classes are built of that. Only `millrace run` asks for it; the file stays as it was.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from typing import Any

_SUFFIX = "_pb2.py"


def described(source: str) -> bytes | None:
    """The serialized description in an old generated source; None if it is not one."""
    if "serialized_pb" not in source or "AddSerializedFile" in source:
        return None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg == "serialized_pb":
            value: ast.expr = node.value
            if isinstance(value, ast.Call) and value.args:  # _b("…"), for Python 2 and 3
                value = value.args[0]
            if isinstance(value, ast.Constant) and isinstance(value.value, str | bytes):
                text = value.value
                return text if isinstance(text, bytes) else text.encode("latin-1")
    return None


def rebuilt(source: str, description: bytes) -> str:
    """A source that builds the same classes with today's protobuf, after the same imports."""
    imports = [
        ast.unparse(node)
        for node in ast.parse(source).body
        if isinstance(node, ast.Import | ast.ImportFrom) and "_pb2" in ast.unparse(node)
    ]
    lines = [
        "from google.protobuf import descriptor_pool as _pool",
        "from google.protobuf.internal import builder as _builder",
        *imports,
        f"DESCRIPTOR = _pool.Default().AddSerializedFile({description!r})",
        "_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())",
        "_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())",
    ]
    return "\n".join(lines) + "\n"


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads the rebuilt source; nothing is cached beside the file."""

    def get_code(self, fullname: str) -> Any:
        """The compiled module."""
        path = self.get_filename(fullname)
        source = importlib.util.decode_source(self.get_data(path))
        description = described(source)
        if description is not None:
            source = rebuilt(source, description)
        return compile(source, path, "exec", dont_inherit=True)


class OlderMessagesFinder(importlib.abc.MetaPathFinder):
    """Finds generated modules that today's protobuf would refuse."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module, if an old protoc generated it."""
        if not fullname.endswith("_pb2"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not spec.origin.endswith(_SUFFIX):
            return None
        try:
            with open(spec.origin, "rb") as file:
                source = importlib.util.decode_source(file.read())
            if described(source) is None:
                return None
        except (OSError, SyntaxError, UnicodeDecodeError):
            return None  # Python's own loader says what is wrong with it.
        spec.loader = _Loader(fullname, spec.origin)
        return spec


def install() -> None:
    """From now on, such modules are rebuilt as they are imported."""
    if not any(isinstance(each, OlderMessagesFinder) for each in sys.meta_path):
        sys.meta_path.insert(0, OlderMessagesFinder())
