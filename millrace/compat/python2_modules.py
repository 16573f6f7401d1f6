"""Lets a program of Python 2 import modules of its own that are Python 2 too.

Only modules below the program's folder are looked at; what is installed is Python 3, or not ours
to change. Nothing is cached: a compiled file of a translated source would outlive the translation.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from millrace.compat import python2


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a source, translated if it must be."""

    def __init__(self, name: str, path: str, translated: Callable[[str, str], str]) -> None:
        super().__init__(name, path)
        self._translated = translated

    def get_code(self, fullname: str) -> Any:
        """The compiled module, always from its source."""
        path = self.get_filename(fullname)
        source = importlib.util.decode_source(self.get_data(path))
        return compile(self._translated(source, path), path, "exec", dont_inherit=True)


class Python2Finder(importlib.abc.MetaPathFinder):
    """Finds the program's own modules that are Python 2."""

    def __init__(self, folder: Path, translated: Callable[[str, str], str]) -> None:
        """Takes the program's folder, and what makes a source of Python 2 one of Python 3."""
        self._folder = folder.resolve()
        self._translated = translated

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module, if it lies in the folder and is Python 2."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            return None
        origin = Path(spec.origin)
        if self._folder not in origin.resolve().parents or "site-packages" in origin.parts:
            return None
        try:
            source = importlib.util.decode_source(origin.read_bytes())
        except (OSError, SyntaxError, UnicodeDecodeError):
            return None  # Python's own loader says what is wrong with it
        if not python2.needs_translation(source):
            return None
        spec.loader = _Loader(fullname, spec.origin, self._translated)
        return spec


def install(folder: Path, translated: Callable[[str, str], str]) -> None:
    """Translates the modules of Python 2 that are imported from a folder from now on."""
    sys.meta_path.insert(0, Python2Finder(folder, translated))
