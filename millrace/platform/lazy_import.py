"""What is loaded when it is first used, so that a task that never uses it starts sooner.

`module` stands for somebody else's package that only a few programs need (a picture codec, say),
`replacing` for those that another package imports without need.
`facade` gives our own package namespaces that appear when they are asked for (PEP 562). Neither
is a way around the order of layers: who may import what is the same as without them.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    """Stands for a module, which is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Who looks at every module, as doctest does, loads nothing.
            raise AttributeError(name)
        _step_aside()
        found = importlib.import_module(self.__name__)
        try:
            return getattr(found, name)
        except AttributeError:  # a module of this package that nobody has imported by itself
            with contextlib.suppress(ModuleNotFoundError):
                return importlib.import_module(f"{self.__name__}.{name}")
            raise


def module(name: str) -> ModuleType:
    """The module `name`, to be imported at its first use."""
    return LazyModule(name)


@contextlib.contextmanager
def replacing(*names: str) -> Iterator[None]:
    """While it lasts, who imports one of these modules gets one that loads at its first use.

    Only for modules of which the importer asks nothing while it is loaded itself.
    """
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = _replaced[name] = LazyModule(name)
            package, _, last = name.rpartition(".")
            if package in _replaced:
                setattr(_replaced[package], last, _replaced[name])
    try:
        yield
    finally:
        _step_aside()


#: What stands in now for modules that are not loaded.
_replaced: dict[str, LazyModule] = {}


def _step_aside() -> None:
    """Lets the modules themselves be imported."""
    while _replaced:
        name, each = _replaced.popitem()
        if sys.modules.get(name) is each:
            del sys.modules[name]


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
        if name == "__all__":  # ``from package import *`` takes what waits, too.
            return [each for each in list_names() if not each.startswith("_")]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted({*present, *waiting})

    return get, list_names
