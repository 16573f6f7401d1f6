"""Objects by name and configuration: ``"relu"``, or ``{"class_name": ..., "config": {...}}``."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_custom: dict[str, Any] = {}
_registered_names: dict[Any, str] = {}
T = TypeVar("T")


def get_custom_objects() -> dict[str, Any]:
    """The program's own classes and functions by name; may be changed."""
    return _custom


@contextlib.contextmanager
def custom_object_scope(*args: Any) -> Iterator[None]:
    """Adds names for a block."""
    before = dict(_custom)
    for objects in args:
        _custom.update(objects)
    try:
        yield
    finally:
        _custom.clear()
        _custom.update(before)


CustomObjectScope = custom_object_scope


def register_keras_serializable(
    package: str = "Custom", name: str | None = None
) -> Callable[[T], T]:
    """A decorator that makes a class or function known by ``package>name``."""

    def register(target: T) -> T:
        key = f"{package}>{name or target.__name__}"  # type: ignore[attr-defined]
        if inspect.isclass(target) and not hasattr(target, "get_config"):
            raise ValueError("Cannot register a class that does not have a get_config() method.")
        if key in _custom:
            raise ValueError(f"{key} has already been registered to {_custom[key]}")
        _custom[key] = target
        _registered_names[target] = key
        return target

    return register


def get_registered_name(target: Any) -> str:
    """The name that a class or function is stored under."""
    return _registered_names.get(target, getattr(target, "__name__", str(target)))


def get_registered_object(name: str) -> Any:
    """What is registered under a name, or None."""
    return _custom.get(name)


def serialize_keras_object(instance: Any) -> Any:
    """A name for a function, class name and configuration for an object."""
    if instance is None:
        return None
    if hasattr(instance, "get_config"):
        return {
            "class_name": get_registered_name(type(instance)),
            "config": instance.get_config(),
        }
    if hasattr(instance, "__name__"):
        return get_registered_name(instance)
    raise ValueError(f"Cannot serialize {instance}: it has neither get_config nor a name.")


def deserialize_keras_object(
    identifier: Any,
    module_objects: dict[str, Any] | None = None,
    custom_objects: dict[str, Any] | None = None,
    printable_module_name: str = "object",
) -> Any:
    """The function or object that a name or configuration stands for.

    Raises:
      ValueError: The name is not known.
    """
    known = {**(module_objects or {}), **_custom, **(custom_objects or {})}
    if identifier is None:
        return None
    if isinstance(identifier, dict):
        if "class_name" not in identifier or "config" not in identifier:
            raise ValueError(f"Improper config format: {identifier}")
        name, config = identifier["class_name"], identifier["config"]
        if name not in known:
            raise ValueError(f"Unknown {printable_module_name}: {name}")
        cls = known[name]
        if hasattr(cls, "from_config"):
            arguments = inspect.signature(cls.from_config).parameters
            with custom_object_scope(custom_objects or {}):
                if "custom_objects" in arguments:
                    return cls.from_config(config, custom_objects=custom_objects or {})
                return cls.from_config(config)
        return cls(**config)
    if isinstance(identifier, str):
        if identifier not in known:
            raise ValueError(f"Unknown {printable_module_name}: {identifier}")
        found = known[identifier]
        return found() if inspect.isclass(found) else found
    if inspect.isfunction(identifier):
        return identifier
    raise ValueError(f"Could not interpret serialized {printable_module_name}: {identifier}")
