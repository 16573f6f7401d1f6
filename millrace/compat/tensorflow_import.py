"""Makes ``import tensorflow`` mean Millrace in this process.

``tensorflow`` is the module `millrace` itself, and ``tensorflow.train`` and the like are its
parts. Paths inside TensorFlow that programs import (``tensorflow.python.ops.array_ops``,
``tensorflow.core.protobuf.config_pb2``) are answered by `tensorflow_tree`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

from millrace.compat import replacements, tensorflow_tree

NAME = "tensorflow"
#: A distribution of its own since TensorFlow 1.14; its modules are those of python.estimator.
ESTIMATOR_NAME = "tensorflow_estimator"
#: Parts of TensorFlow's package that are no public names, or hold more than these.
_TREES = ("python", "core", "contrib", "tools")
#: Millrace's own folders, whose names are no part of TensorFlow's.
_OWN = frozenset(
    "cli client compiler core graph launchers observe ops passes platform protocol python "
    "rpc runtime server testing training".split()
)


class _Loader(importlib.abc.Loader):
    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Lets Python make a module, which `exec_module` replaces."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Puts the real module in the place of the one that Python made."""
        sys.modules[module.__name__] = self._module


class TensorFlowFinder(importlib.abc.MetaPathFinder):
    """Answers imports of ``tensorflow`` and everything below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module that stands for `fullname`, if it is TensorFlow's."""
        if fullname == ESTIMATOR_NAME or fullname.startswith(f"{ESTIMATOR_NAME}."):
            return _estimator_spec(fullname)
        if fullname != NAME and not fullname.startswith(f"{NAME}."):
            return None
        module = _module_for(fullname)
        below = fullname[len(NAME) + 1 :]
        if module is None:
            words = replacements.describe_missing(fullname)
            raise ModuleNotFoundError(words, name=fullname)
        if tensorflow_tree.is_package(below) and not hasattr(module, "__path__"):
            module.__path__ = []  # one file here, and in TensorFlow a package with modules in it
        is_package = hasattr(module, "__path__")
        return importlib.util.spec_from_loader(fullname, _Loader(module), is_package=is_package)


def _estimator_spec(fullname: str) -> importlib.machinery.ModuleSpec | None:
    """The module that stands for one of the distribution tensorflow_estimator."""
    below = fullname[len(ESTIMATOR_NAME) + 1 :]
    if below in ("", "python"):
        module: types.ModuleType | None = types.ModuleType(fullname)
        assert module is not None
        module.__path__ = []
        module.estimator = (  # type: ignore[attr-defined]
            tensorflow_tree.find("python.estimator")
            if below
            else importlib.import_module("millrace.estimator")
        )
    elif below == "estimator":
        module = importlib.import_module("millrace.estimator")
    else:
        module = tensorflow_tree.find(below)
    if module is None:
        raise ModuleNotFoundError(replacements.describe_missing(fullname), name=fullname)
    is_package = hasattr(module, "__path__")
    return importlib.util.spec_from_loader(fullname, _Loader(module), is_package=is_package)


def _module_for(fullname: str) -> types.ModuleType | None:
    if fullname == NAME:
        return importlib.import_module("millrace")
    path = fullname[len(NAME) + 1 :]
    if path != "compat.v1":  # that is a module of its own, the others are those without it
        path = path.removeprefix("compat.v1.")
    if path == "core":
        # Python makes it an attribute of the package, where ours must stay; what is below it is
        # TensorFlow's.
        return importlib.import_module("millrace.core")
    if path.partition(".")[0] not in _OWN and (found := _public_module(path)) is not None:
        return found
    return tensorflow_tree.find(path) if path.partition(".")[0] in _TREES else None


def _public_module(path: str) -> types.ModuleType | None:
    """Millrace's module of that name, or a module that one of them has under that name."""
    try:
        return importlib.import_module(f"millrace.{path}")
    except ImportError as error:
        if error.name is None or not error.name.startswith("millrace"):
            raise
    parent, _, last = f"millrace.{path}".rpartition(".")
    try:
        found = getattr(importlib.import_module(parent), last, None)
    except ImportError:
        found = None
    return found if isinstance(found, types.ModuleType) else None


def install() -> None:
    """Makes ``import tensorflow`` import Millrace, also when TensorFlow is installed."""
    if not any(isinstance(finder, TensorFlowFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, TensorFlowFinder())
        _forget()


def uninstall() -> None:
    """Takes `install` back."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, TensorFlowFinder)]
    _forget()


def _forget() -> None:
    """Lets the next import ask the finder, or no longer."""
    for name in [n for n in sys.modules if n.partition(".")[0] in (NAME, ESTIMATOR_NAME)]:
        del sys.modules[name]
