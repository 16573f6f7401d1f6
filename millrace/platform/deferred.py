"""What is loaded when it is first used, so that a task that never uses it starts sooner.

`module` stands for somebody else's package that only a few programs need (a picture codec, say).
`facade` gives our own package namespaces that appear when they are asked for (PEP 562). Neither
is a way around the order of layers: who may import what is the same as without them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any


class DeferredModule(ModuleType):
    """Stands for a module, which is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Who looks at every module, as doctest does, loads nothing.
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


def module(name: str) -> ModuleType:
    """The module `name`, to be imported at its first use."""
    return DeferredModule(name)


def facade(
    package: str, names: Iterable[str], present: dict[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package some of whose modules load at first use.

    Args:
      package: Its name.
      names: The modules in it that wait.
      present: Its globals.
    """
    waiting = frozenset(names)

    def get(name: str) -> Any:
        if name in waiting:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted({*present, *waiting})

    return get, list_names
