"""Reads TensorFlow 1.15's Python sources: which names a module has, and where they come from.

Nothing is imported: no Python of today can. The sources are those of its wheel, unpacked (`pip
download --no-deps --python-version 3.7 tensorflow==1.15.5`).
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

#: Folders of the wheels, and the package that each is.
_FOLDERS = {"tensorflow_core": "tensorflow", "tensorflow_estimator": "tensorflow_estimator"}


@dataclasses.dataclass(frozen=True)
class Name:
    """What a name of a module stands for: a name of another one, or a module (`name` empty)."""

    module: str
    name: str = ""


class Sources:
    """The modules of an unpacked wheel."""

    def __init__(self, root: Path) -> None:
        """Takes the folder that holds ``tensorflow_core`` and ``tensorflow_estimator``."""
        self._files: dict[str, Path] = {}
        self._names: dict[str, dict[str, Name]] = {}
        self._stars: dict[str, list[str]] = {}
        self._exported: dict[str, set[str]] = {}
        self.packages: set[str] = set()
        self.definitions: dict[tuple[str, str], ast.stmt] = {}
        for folder, package in _FOLDERS.items():
            for path in (root / folder).rglob("*.py"):
                parts = path.relative_to(root / folder).with_suffix("").parts
                name = ".".join((package, *parts)).removesuffix(".__init__")
                self._files[name] = path
                if path.name == "__init__.py":
                    self.packages.add(name)

    @property
    def modules(self) -> list[str]:
        """All of them, by path."""
        return sorted(self._files)

    def names(self, module: str) -> dict[str, Name]:
        """What every name of a module stands for, followed to where it is defined."""
        found = {}
        for name in self._visible(module, {module}):
            origin = self.origin(module, name)
            if origin is not None:
                found[name] = origin
        return found

    def star_imports(self, module: str) -> list[str]:
        """The modules all of whose names it takes."""
        self._read(module)
        return self._stars[module]

    def documented_names(self, module: str) -> dict[str, Name]:
        """Those of `names` that the module keeps: it deletes what it does not document."""
        found = {n: o for n, o in self.names(module).items() if not n.startswith("_")}
        tree = ast.parse(self._files[module].read_text())
        kept = set(re.findall(r"^@@(\w+)", ast.get_docstring(tree) or "", re.MULTILINE))
        for statement in _statements(tree.body):
            if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.List):
                continue
            if any("allowed" in getattr(t, "id", "").lower() for t in statement.targets):
                kept |= {e.value for e in statement.value.elts if isinstance(e, ast.Constant)}
        return {n: o for n, o in found.items() if n in kept} if kept else found

    def origin(
        self, module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()
    ) -> Name | None:
        """Where ``module.name`` is defined."""
        if module not in self._files or (module, name) in seen:
            return None
        seen |= {(module, name)}
        self._read(module)
        found = self._names[module].get(name)
        if found is not None:
            if found == Name(module, name) or not found.name:
                return found
            return self.origin(found.module, found.name, seen) or found
        for star in self._stars[module]:
            if (further := self.origin(star, name, seen)) is not None:
                return further
        return Name(f"{module}.{name}") if f"{module}.{name}" in self._files else None

    def _visible(self, module: str, seen: set[str]) -> set[str]:
        if module not in self._files:
            return set()
        self._read(module)
        visible = set(self._names[module])
        for star in self._stars[module]:
            if star not in seen:
                seen.add(star)
                names = self._visible(star, seen)
                exported = self._exported.get(star)
                visible |= names & exported if exported else {n for n in names if n[0] != "_"}
        return visible

    def _read(self, module: str) -> None:
        if module in self._names:
            return
        names: dict[str, Name] = {}
        self._names[module] = names
        self._stars[module] = []
        for statement in _statements(ast.parse(self._files[module].read_text()).body):
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                names[statement.name] = Name(module, statement.name)
                self.definitions[module, statement.name] = statement
            elif isinstance(statement, ast.Import):
                for alias in statement.names:
                    if alias.asname and alias.name in self._files:
                        names[alias.asname] = Name(alias.name)
            elif isinstance(statement, ast.ImportFrom):
                self._read_import(module, statement)
            elif isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self._read_assignment(module, target, statement.value)

    def _read_import(self, module: str, statement: ast.ImportFrom) -> None:
        source = (statement.module or "").replace("tensorflow_core", "tensorflow", 1)
        if source not in self._files:
            return
        for alias in statement.names:
            if alias.name == "*":
                self._stars[module].append(source)
                continue
            whole = f"{source}.{alias.name}"
            is_module = whole in self._files
            self._names[module][alias.asname or alias.name] = (
                Name(whole) if is_module else Name(source, alias.name)
            )

    def _read_assignment(self, module: str, target: ast.expr, value: ast.expr) -> None:
        names = self._names[module]
        if isinstance(target, ast.Tuple):
            for element in target.elts:
                self._read_assignment(module, element, ast.Constant(None))
        if not isinstance(target, ast.Name):
            return
        if target.id == "__all__" and isinstance(value, ast.List):
            self._exported[module] = {e.value for e in value.elts if isinstance(e, ast.Constant)}
        names.setdefault(target.id, Name(module, target.id))
        if isinstance(value, ast.Name) and value.id in names:
            names[target.id] = names[value.id]
        elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            base = names.get(value.value.id)
            if base is not None and not base.name:
                names[target.id] = Name(base.module, value.attr)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _statements(statement.body)
            yield from _statements(statement.orelse)
        elif isinstance(statement, ast.Try):
            yield from _statements(statement.body)
        else:
            yield statement
