"""What TensorFlow 1.15's modules hold, as Millrace has it.

Three sources answer for a name of ``tensorflow.python.ops.array_ops``:

1. the overlay, `millrace.compat.overlay`: modules at the same paths as TensorFlow's, for what
   programs take from inside TensorFlow and that has no public name;
2. the record, tensorflow_tree.txt: under which public name TensorFlow offers the same object;
3. the module of ours that has the place of TensorFlow's (`OUR_MODULES`: the networks of slim, say,
   whose functions have no other public name);
4. the functions generated from op definitions (`generated_ops`).

A name that none of them has is missing, and says so. Nothing is guessed by likeness of names.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import types
from importlib import resources
from typing import Any

from millrace.compat import generated_ops, unavailable
from millrace.compat.replacements import describe_missing

OVERLAY = "millrace.compat.overlay"
_MESSAGES = "tensorboard.compat.proto"

#: Packages of TensorFlow's tree, and our packages with modules of the same names and contents.
OUR_MODULES = {
    "contrib.layers.python.layers": "millrace.contrib.layers",
    "contrib.learn.python.learn": "millrace.contrib.learn",
    "contrib.seq2seq.python.ops": "millrace.contrib.seq2seq",
    "contrib.slim.python.slim": "millrace.contrib.slim",
    "contrib.slim.python.slim.data": "millrace.contrib.slim.data",
    "contrib.slim.python.slim.nets": "millrace.contrib.slim.nets",
    "contrib.training.python.training": "millrace.contrib.training",
    "python.keras": "millrace.keras",
    "python.keras.preprocessing": "millrace.keras.preprocessing",
    "python.keras.applications": "millrace.keras.applications",
    "python.keras.utils": "millrace.keras.utils",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Module:
    """One module of the record: public name by name, and the generated modules it includes."""

    public: dict[str, str]
    generated: tuple[str, ...] = ()


_NONE = Module({})


@functools.cache
def record() -> dict[str, Module]:
    """The modules of TensorFlow's tree, by path below ``tensorflow``."""
    found = {}
    text = resources.files("millrace.compat").joinpath("tensorflow_tree.txt").read_text()
    for line in text.splitlines():
        path, *words = line.split()
        pairs = (word.partition("=") for word in words if word[0] != "*")
        public = {name: origin or name for name, _, origin in pairs}
        found[path] = Module(public, tuple(word[1:] for word in words if word[0] == "*"))
    for path in generated_ops.record():
        found[path] = Module({}, (path,))
    return found


@functools.cache
def _packages() -> frozenset[str]:
    paths = (path.split(".")[:-1] for path in record())
    return frozenset(".".join(parts[:i]) for parts in paths for i in range(1, len(parts) + 1))


def is_package(path: str) -> bool:
    """Whether a path of TensorFlow's tree holds further modules."""
    return path in _packages() or path in unavailable.REASONS


class InternalModule(types.ModuleType):
    """A module of TensorFlow's tree, whose names are found when they are asked for."""

    def __init__(self, path: str) -> None:
        """Takes the path below ``tensorflow``."""
        super().__init__(f"tensorflow.{path}", f"TensorFlow's {path}, as Millrace has it.")
        self._path = path
        self._overlay = _overlay(path)
        if is_package(path) or hasattr(self._overlay, "__path__"):
            self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [each for each in dir(self) if not each.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(name)
        value = self._find(name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Keeps a function that its package names like the module that it is from.

        Python sets a module that is imported on its package; in TensorFlow the package's own
        import of the function came after that.
        """
        if isinstance(value, InternalModule) and name in record().get(self._path, _NONE).public:
            return
        super().__setattr__(name, value)

    def _find(self, name: str) -> Any:
        if self._overlay is not None and name in vars(self._overlay):
            value = getattr(self._overlay, name)
            # A module of the overlay that was imported is only a part of what its path offers.
            if getattr(value, "__name__", "") != f"{self._overlay.__name__}.{name}":
                return value
        module = record().get(self._path, Module({}))
        if name in module.public:
            return _public(module.public[name], f"{self.__name__}.{name}")
        if (ours := _our_module(self._path)) is not None and name in vars(ours):
            return getattr(ours, name)
        for generated in module.generated:
            if name in generated_ops.record()[generated]:
                return generated_ops.generated_function(generated, name)
        if hasattr(self, "__path__") and (found := find(f"{self._path}.{name}")) is not None:
            return found
        if self._path.startswith("python.") and (found := _imported(name)) is not None:
            return found
        raise AttributeError(describe_missing(f"{self.__name__}.{name}"), name=name, obj=self)

    def __dir__(self) -> list[str]:
        names = {n for n in vars(self._overlay or object) if not n.startswith("__")}
        module = record().get(self._path, Module({}))
        names.update(n for n, origin in module.public.items() if _is_there(origin))
        names.update(n for each in module.generated for n in generated_ops.offered(each))
        return sorted(names)


#: Where TensorFlow's modules import other modules from, which are then names of theirs.
_IMPORTED_FROM = ("framework", "ops", "training", "util", "eager", "platform", "layers", "client")


def _imported(name: str) -> types.ModuleType | None:
    """The module of TensorFlow's Python tree that other modules of it import as `name`."""
    paths = (f"python.{package}.{name}" for package in _IMPORTED_FROM)
    known = (path for path in paths if path in record() or _overlay(path) is not None)
    return next((module for module in map(find, known) if module is not None), None)


@functools.cache
def find(path: str) -> types.ModuleType | None:
    """The module of TensorFlow's tree at a path below ``tensorflow``, if Millrace has any of it."""
    if path.endswith("_pb2"):
        return _overlay(path) or _messages(path)
    module = record().get(path)
    known = module is not None or path in _packages() or _overlay(path) is not None
    if not known and _our_module(path) is None:
        return unavailable.find(path)
    if not _offers_something(path):
        return None
    return InternalModule(path)


def _offers_something(path: str) -> bool:
    """Whether a module has a name to give, or holds a module that does."""
    if _overlay(path) is not None or _our_module(path) is not None:
        return True
    module = record().get(path, Module({}))
    if module.generated or any(_is_there(origin) for origin in module.public.values()):
        return True
    return any(_offers_something(p) for p in record() if p.rpartition(".")[0] == path)


@functools.cache
def _overlay(path: str) -> types.ModuleType | None:
    name = f"{OVERLAY}.{path}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return None


@functools.cache
def _our_module(path: str) -> types.ModuleType | None:
    """Our module in the place of the one at `path`, if there is one."""
    package, _, name = path.rpartition(".")
    ours = path if path in OUR_MODULES else package
    if ours not in OUR_MODULES:
        return None
    full = OUR_MODULES[path] if path in OUR_MODULES else f"{OUR_MODULES[package]}.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name is None or not full.startswith(error.name):
            raise
        return None


def _messages(path: str) -> types.ModuleType | None:
    name = f"{_MESSAGES}.{path.rpartition('.')[2]}"
    if not path.startswith("core.") or importlib.util.find_spec(name) is None:
        return None
    return importlib.import_module(name)


def _public(origin: str, asked: str) -> Any:
    found: Any = importlib.import_module("millrace")
    for part in origin.split("."):
        if not hasattr(found, part) or isinstance(getattr(found, part), InternalModule):
            raise AttributeError(
                f"{asked} is not in Millrace: it is TensorFlow's tf.{origin}, which is missing too",
                name=part,
                obj=found,
            )
        found = getattr(found, part)
    return found


def _is_there(origin: str) -> bool:
    try:
        _public(origin, origin)
    except (AttributeError, ImportError):
        return False
    return True
