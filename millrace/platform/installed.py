"""Answers JAX's questions about installed packages without reading all of their descriptions.

JAX asks for devices' plugins when it is loaded, and again when its first device is made. Python's
answer takes apart the metadata of every package there is: a twentieth of the time until a task's
first step. Nearly always no package is meant, which the names of folders tell, and a look for one
word in files. Where one may be meant, Python answers. Questions of anybody else are not touched.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.metadata
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

#: Packages whose names begin so are devices' plugins; JAX looks for the first by its name.
_PLUGIN_NAMES = ("jax_rocm", "jax-rocm")
#: The group under which others say that they are.
_PLUGIN_GROUP = "jax_plugins"
_DESCRIPTIONS = (".dist-info", ".egg-info")


@contextlib.contextmanager
def quick_answers() -> Iterator[None]:
    """While it lasts, JAX's questions are answered quickly."""
    if not _only_folders():
        yield
        return
    module = importlib.metadata
    distributions, entry_points = module.distributions, module.entry_points

    @functools.wraps(distributions)
    def answer_distributions(**which: Any) -> Iterable[importlib.metadata.Distribution]:
        asks = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        if which or asks != "jax" or any(_is_plugin(name) for _, name in _descriptions()):
            return distributions(**which)
        return ()

    @functools.wraps(entry_points)
    def answer_entry_points(**which: Any) -> Any:
        if which != {"group": _PLUGIN_GROUP} or _some_plugin_says_so():
            return entry_points(**which)
        return importlib.metadata.EntryPoints(())

    module.distributions = answer_distributions
    module.entry_points = answer_entry_points
    try:
        yield
    finally:
        module.distributions, module.entry_points = distributions, entry_points


def _only_folders() -> bool:
    """Whether packages are found in folders and nowhere else."""
    finders = [each for each in sys.meta_path if hasattr(each, "find_distributions")]
    return finders == [importlib.machinery.PathFinder] and not any(
        folder.endswith(".egg") or os.path.isfile(folder) for folder in sys.path
    )


def _descriptions() -> Iterator[tuple[str, str]]:
    """Folders of packages' descriptions: where they are and their names."""
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:  # Not every entry of the path is there.
            continue
        for name in names:
            if name.endswith(_DESCRIPTIONS):
                yield folder or ".", name


def _is_plugin(name: str) -> bool:
    return name.lower().startswith(_PLUGIN_NAMES)


def _some_plugin_says_so() -> bool:
    word = _PLUGIN_GROUP.encode()
    for folder, name in _descriptions():
        try:
            with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                if word in file.read():
                    return True
        except OSError:  # Most have none.
            continue
    return False
