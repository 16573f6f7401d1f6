"""Which of TensorFlow's names a program uses, found without running it.

Names are followed from the program's imports (``import tensorflow as tf``, ``from
tensorflow.contrib import slim``) through simple assignments (``layers = tf.layers``) and
attributes. What is looked up by a text (`getattr`) is not seen.
"""

from __future__ import annotations

import ast
import importlib
import types
from typing import Any, NamedTuple

_ROOTS = ("tensorflow", "millrace")


class Use(NamedTuple):
    """A name where it is used: ``tensorflow.train.Saver``, and the line."""

    name: str
    line: int


def names_in(tree: ast.Module) -> list[Use]:
    """The names of TensorFlow's that a program uses, in the order of their lines."""
    finder = _Finder()
    finder.visit(tree)
    return sorted(finder.uses, key=lambda use: (use.line, use.name))


def first_missing(name: str) -> str | None:
    """The shortest part of a dotted name that does not resolve, None if all of it does.

    Only modules and classes are looked into: what an object has is known when there is one.
    """
    parts = name.split(".")
    try:
        found: Any = importlib.import_module(parts[0])
    except ImportError:
        return parts[0]
    for i, part in enumerate(parts[1:], start=2):
        if not isinstance(found, types.ModuleType | type):
            return None
        try:
            found = getattr(found, part)
        except AttributeError:
            if isinstance(found, type):
                # Attributes of instances, and fields of messages, are no attributes of the class.
                return None
            try:
                found = importlib.import_module(".".join(parts[:i]))
            except ImportError:
                return ".".join(parts[:i])
    return None


class _Finder(ast.NodeVisitor):
    def __init__(self) -> None:
        self.uses: list[Use] = []
        #: What a name of the program stands for: ``tf`` for ``tensorflow``.
        self._meanings: dict[str, str] = {}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if _is_tensorflows(alias.name):
                self.uses.append(Use(alias.name, node.lineno))
                root = alias.name.partition(".")[0]
                self._meanings[alias.asname or root] = alias.name if alias.asname else root

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or not _is_tensorflows(node.module or ""):
            return
        for alias in node.names:
            name = str(node.module) if alias.name == "*" else f"{node.module}.{alias.name}"
            self.uses.append(Use(name, node.lineno))
            self._meanings[alias.asname or alias.name] = name

    def visit_Assign(self, node: ast.Assign) -> None:
        meaning = self._meaning(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name) and meaning is not None:
                self._meanings[target.id] = meaning
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        meaning = self._meaning(node)
        if meaning is None:
            self.generic_visit(node)
        else:
            self.uses.append(Use(meaning, node.lineno))

    def _meaning(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self._meanings.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._meaning(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        return None


def _is_tensorflows(module: str) -> bool:
    return module.partition(".")[0] in _ROOTS
