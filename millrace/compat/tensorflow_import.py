"""Makes ``import tensorflow`` mean Millrace in this process.

``tensorflow`` is the module `millrace` itself, and ``tensorflow.train`` and the like are its
parts. Paths inside TensorFlow that programs import (``tensorflow.python.ops.array_ops``,
``tensorflow.core.protobuf.config_pb2``) answer with the public names that TensorFlow kept there.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

NAME = "tensorflow"
#: Where the names of an internal module are looked for first, by the module's last name.
_HOMES = {
    "app": "app",
    "config_pb2": "core.config",
    "cluster_pb2": "core.config",
    "dtypes": "dtypes",
    "errors": "errors",
    "errors_impl": "errors",
    "event_pb2": "core.config",
    "flags": "flags",
    "gfile": "gfile",
    "graph_pb2": "core.config",
    "init_ops": "initializers",
    "init_ops_v2": "initializers",
    "loader": "saved_model.loader",
    "lookup_ops": "lookup",
    "losses_impl": "losses",
    "meta_graph_pb2": "core.config",
    "mnist": "examples.tutorials.mnist.input_data",
    "metrics_impl": "metrics",
    "nest": "nest",
    "node_def_pb2": "core.config",
    "resource_loader": "resource_loader",
    "rnn_cell": "rnn_cell",
    "rnn_cell_impl": "rnn_cell",
    "saver_pb2": "core.config",
    "summary": "summary",
    "summary_pb2": "core.config",
    "tensorflow_server_pb2": "rpc.messages",
    "test": "test",
    "test_util": "test",
    "tf_logging": "logging",
    "timeline": "client.timeline",
    "types_pb2": "core.config",
    "variable_pb2": "core.config",
    "variable_scope": "ops.variable_scope",
    "device_setter": "training.device_setter",
    "ops": "graph.defaults",
}
#: Where they are looked for next, and what a suggestion may name.
_PUBLIC = (
    "train nn math io image losses metrics initializers summary strings linalg sparse gfile "
    "logging errors dtypes test lookup saved_model rnn_cell nest"
).split()
#: Packages of TensorFlow's that hold modules, not packages.
_OF_MODULES = frozenset(
    "ops framework training platform client util lib summary protobuf eager data".split()
)
_INTERNAL = ("tensorflow.python", "tensorflow.core", "tensorflow.contrib", "tensorflow.tools")


class _InternalModule(types.ModuleType):
    """A module of TensorFlow's insides: finds names where Millrace has them."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = self.__name__
        for place in _places(path.rpartition(".")[2]):
            if name in dir(place):
                return getattr(place, name)
        raise AttributeError(describe_missing(f"{path}.{name}", name), name=name, obj=self)


def _places(module: str) -> list[types.ModuleType]:
    names = [_HOMES[module]] if module in _HOMES else []
    found = []
    for name in [*names, "", *_PUBLIC]:
        try:
            found.append(importlib.import_module(f"millrace.{name}".rstrip(".")))
        except ImportError:
            continue
    return found


def describe_missing(path: str, name: str) -> str:
    """One sentence about a name that Millrace lacks, with what is near."""
    known: dict[str, str] = {}
    for place in _places(""):
        prefix = place.__name__.replace("millrace", "tf", 1)
        for each in dir(place):
            if not each.startswith("_"):
                known.setdefault(each, f"{prefix}.{each}")
    if name in known:
        return f"{path} is not in Millrace; there is {known[name]}"
    near = [known[each] for each in difflib.get_close_matches(name, known, n=3)]
    advice = f"near it: {', '.join(near)}" if near else "nothing has a name near it"
    return f"{path} is not in Millrace; {advice}"


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
        if fullname != NAME and not fullname.startswith(f"{NAME}."):
            return None
        module = _module_for(fullname)
        if module is None:
            last = fullname.rpartition(".")[2]
            raise ModuleNotFoundError(describe_missing(fullname, last), name=fullname)
        is_package = hasattr(module, "__path__")
        return importlib.util.spec_from_loader(fullname, _Loader(module), is_package=is_package)


def _module_for(fullname: str) -> types.ModuleType | None:
    rest = fullname[len(NAME) :]
    if rest != ".compat.v1":  # that is a module of its own, the others are those without it
        rest = rest.removeprefix(".compat.v1")
    try:
        return importlib.import_module(f"millrace{rest}")
    except ImportError as error:
        if error.name is None or not error.name.startswith("millrace"):
            raise
    parent, _, last = f"millrace{rest}".rpartition(".")
    try:
        found = getattr(importlib.import_module(parent), last, None)
    except ImportError:
        found = None
    if isinstance(found, types.ModuleType):
        return found
    if fullname.startswith(_INTERNAL):
        module = _InternalModule(fullname)
        if fullname.split(".")[-2] not in _OF_MODULES:
            module.__path__ = []  # a package: its modules are asked for in their turn
        return module
    return None


def install() -> None:
    """Makes ``import tensorflow`` import Millrace, also when TensorFlow is installed."""
    if not any(isinstance(finder, TensorFlowFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, TensorFlowFinder())
        for name in [n for n in sys.modules if n == NAME or n.startswith(f"{NAME}.")]:
            del sys.modules[name]


def uninstall() -> None:
    """Takes `install` back."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, TensorFlowFinder)]
    for name in [n for n in sys.modules if n == NAME or n.startswith(f"{NAME}.")]:
        del sys.modules[name]
