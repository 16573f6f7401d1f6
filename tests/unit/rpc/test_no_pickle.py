"""Nothing that can be made to run code is read from a wire, or from a file."""

import ast
from pathlib import Path

import numpy as np
import pytest

import millrace
from millrace.rpc.message import Kind, Message, Prefix, aligned_buffer, decode, encode

_PACKAGE = Path(millrace.__file__).parent
_FORBIDDEN = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}


def _imports(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_no_module_of_the_package_unpickles():
    for path in _PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        assert not _imports(tree) & _FORBIDDEN, path
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword):
                assert node.arg != "allow_pickle", path
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) != ("np", "load"), path


def test_objects_other_than_bytes_are_not_sent():
    message = Message(Kind.TENSORS, tensors=[np.array([print], object)])
    with pytest.raises(millrace.errors.InvalidArgumentError, match="cannot be sent"):
        encode(message)


@pytest.mark.parametrize("dtype", ["resource", "variant", "float32_ref"])
def test_bytes_are_never_taken_for_objects(dtype):
    number = millrace.as_dtype(dtype).as_datatype_enum
    good = bytearray(encode(Message(Kind.TENSORS, tensors=[np.zeros(8, np.uint8)]))[0])
    prefix = Prefix(bytes(good[:32]))
    header = good[32:]
    header[12] = number
    with pytest.raises(ValueError, match="cannot hold"):
        decode(prefix, header, aligned_buffer(8))
