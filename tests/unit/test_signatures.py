"""Signatures on a step's way name what they take: `Any` is refused there (decision 45)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "millrace"
FOLDERS = ("protocol", "passes", "runtime", "rpc", "server")
#: Messages are made at import: no annotation could name them.
ALLOWED = {("rpc/service_messages.py", "__getattr__")}


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """What a signature says of arguments and result."""
    named = function.args
    for each in (*named.posonlyargs, *named.args, *named.kwonlyargs, named.vararg, named.kwarg):
        if each is not None and each.annotation is not None:
            yield each.annotation
    if function.returns is not None:
        yield function.returns


def names_any(annotation: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "Any" for each in ast.walk(annotation))


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_signature_names_any(folder: str) -> None:
    found = set()
    for path in (PACKAGE / folder).rglob("*.py"):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                map(names_any, annotations(each))
            ):
                found.add((str(path.relative_to(PACKAGE)), each.name))
    assert found <= ALLOWED


@pytest.mark.parametrize("folder", ["protocol/step", "protocol/cut", "protocol/replication"])
def test_state_machines_do_not_look_into_values(folder: str) -> None:
    """`Value` is `Any` to a type checker; only a mirror applies what it is given."""
    importing = {
        path.name for path in (PACKAGE / folder).glob("*.py") if "import Value" in path.read_text()
    }
    assert importing <= {"mirror.py"}
