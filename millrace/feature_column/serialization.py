"""Feature columns as plain values, as Keras's layers of columns write them."""

from __future__ import annotations

from typing import Any, TypeVar

import millrace as tf
from millrace.feature_column.column import FeatureColumn
from millrace.ops.state import initializers

__all__ = ["deserialize_feature_column", "register_feature_column", "serialize_feature_column"]

_T = TypeVar("_T", bound=type)
_classes: dict[str, type] = {}


def register_feature_column(cls: _T) -> _T:
    """Lets `deserialize_feature_column` find a class by its name."""
    _classes[cls.__name__] = cls
    return cls


def serialize_feature_column(column: Any) -> Any:
    """A column as ``{"class_name": ..., "config": ...}``; a feature's key as it is."""
    if isinstance(column, str):
        return column
    if not isinstance(column, FeatureColumn):
        raise ValueError(f"Instance: {column} is not a FeatureColumn")
    return {"class_name": type(column).__name__, "config": column.get_config()}


def deserialize_feature_column(
    config: Any, custom_objects: Any = None, columns_by_name: dict[str, Any] | None = None
) -> Any:
    """The column that `serialize_feature_column` wrote.

    Args:
      config: What was written.
      custom_objects: Further classes and functions, by name.
      columns_by_name: Columns made before, which are used again; those made now are added.
    """
    if isinstance(config, str):
        return config
    if not isinstance(config, dict) or not {"class_name", "config"} <= set(config):
        raise ValueError(f"Improper config format: {config}")
    known = {**_classes, **(custom_objects or {})}
    if config["class_name"] not in known:
        raise ValueError(f"Unknown FeatureColumn: {config['class_name']}")
    made = known[config["class_name"]].from_config(
        config["config"], custom_objects=custom_objects, columns_by_name=columns_by_name
    )
    if columns_by_name is None:
        return made
    return columns_by_name.setdefault(made.name, made)


class Configurable:
    """`get_config` and `from_config` of a column that is a named tuple.

    Columns among its fields are written as columns, types by name, functions and initializers as
    Keras writes them.
    """

    __slots__ = ()

    def get_config(self: Any) -> dict[str, Any]:
        """The fields."""
        return {name: _written(name, value) for name, value in self._asdict().items()}

    @classmethod
    def from_config(
        cls: Any, config: dict[str, Any], custom_objects: Any = None, columns_by_name: Any = None
    ) -> Any:
        """A column from what `get_config` gave."""
        defaults = cls._field_defaults
        if not set(cls._fields) - set(defaults) <= set(config) <= set(cls._fields):
            raise ValueError(f"Invalid config: {config}, expected keys: {cls._fields}")
        return cls(
            **{
                name: _read(name, value, custom_objects, columns_by_name)
                for name, value in config.items()
            }
        )


def _written(name: str, value: Any) -> Any:
    if isinstance(value, FeatureColumn):
        return serialize_feature_column(value)
    if isinstance(value, tuple):
        return tuple(_written(name, each) for each in value)
    if isinstance(value, tf.DType):
        return value.name
    if name == "initializer":
        return {"class_name": type(value).__name__, "config": value.get_config()}
    if callable(value):
        return value.__name__
    return value


def _read(name: str, value: Any, custom_objects: Any, columns_by_name: Any) -> Any:
    if name == "dtype":
        return tf.as_dtype(value)
    if name == "initializer":
        known = {**vars(initializers), **(custom_objects or {})}
        return known[value["class_name"]].from_config(value["config"])
    if name == "normalizer_fn" and isinstance(value, str):
        if value not in (custom_objects or {}):
            raise ValueError(f"Unknown function: {value}. Pass it in custom_objects.")
        return custom_objects[value]
    if isinstance(value, dict):
        return deserialize_feature_column(value, custom_objects, columns_by_name)
    if isinstance(value, list | tuple):
        return tuple(_read("", each, custom_objects, columns_by_name) for each in value)
    return value
