"""`HParams`: named hyperparameters with types, set from texts such as ``lr=0.1,layers=[1,2]``."""

from __future__ import annotations

import json
import re
from typing import Any

_ITEM = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)"
    r"(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"(?:\[(?P<many>[^\]]*)\]|(?P<one>[^,\[]*))\s*(?:$|,\s*)"
)


def parse_values(
    values: str, type_map: dict[str, Any], ignore_unknown: bool = False
) -> dict[str, Any]:
    """Values by name, of the types that `type_map` says.

    Args:
      values: ``name=value`` pairs, with commas; lists in brackets; ``name[1]=value`` for one.
      type_map: The type of each name.
      ignore_unknown: Whether other names are left out instead of refused.

    Raises:
      ValueError: The text cannot be read, a name is not known, or a value is of another type.
    """
    found: dict[str, Any] = {}
    position = 0
    while position < len(values):
        match = _ITEM.match(values, position)
        if match is None:
            raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
        position = match.end()
        name = match["name"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f"Unknown hyperparameter type for {name}")
        kind = type_map[name]
        if match["many"] is not None:
            if match["index"] is not None:
                raise ValueError(f"{name}[{match['index']}] cannot be set to a list.")
            found[name] = [_parse(name, kind, v) for v in _split(match["many"])]
        elif match["index"] is not None:
            found.setdefault(name, {})[int(match["index"])] = _parse(name, kind, match["one"])
        else:
            if name in found:
                raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
            found[name] = _parse(name, kind, match["one"])
    return found


def _split(text: str) -> list[str]:
    return [part for part in re.split(r"[ ,]", text) if part]


def _parse(name: str, kind: Any, text: str) -> Any:
    text = text.strip()
    try:
        if kind is bool:
            if text in ("true", "True"):
                return True
            if text in ("false", "False"):
                return False
            return bool(int(text))
        return kind(text)
    except ValueError:
        raise ValueError(
            f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{text}'"
        ) from None


class HParams:
    """Hyperparameters as attributes; a value keeps the type that it was made with."""

    _HAS_DYNAMIC_ATTRIBUTES = True

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        self._hparam_types: dict[str, tuple[Any, bool]] = {}
        self._model_structure = model_structure
        if hparam_def is not None:
            raise ValueError("HParams from an HParamDef message is not supported; give keywords.")
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds one.

        Raises:
          ValueError: There is one of that name, or a list is empty.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, list | tuple):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets one to a value of its type.

        Raises:
          KeyError: There is none of that name.
          ValueError: It is a list and the value is not, or the value is of another type.
        """
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list | tuple):
            if not is_list:
                raise ValueError(f"Must not pass a list for single-valued parameter: {name}")
            setattr(self, name, [_cast(name, kind, v) for v in value])
        else:
            if is_list:
                raise ValueError(f"Must pass a list for multi-valued parameter: {name}.")
            setattr(self, name, _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes one, if it is there."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Sets values from ``name=value`` pairs."""
        types = {name: kind for name, (kind, _) in self._hparam_types.items()}
        return self.override_from_dict(parse_values(values, types))

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        """Sets values by name; a dict sets single elements of a list."""
        for name, value in values_dict.items():
            if isinstance(value, dict):
                elements = list(getattr(self, name))
                for index, element in value.items():
                    elements[index] = element
                value = elements
            self.set_hparam(name, value)
        return self

    def set_model_structure(self, model_structure: Any) -> None:
        """Notes a structure of the model."""
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        """The structure of the model."""
        return self._model_structure

    def to_json(
        self,
        indent: int | None = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        """The values as JSON, without functions."""
        plain = {k: v for k, v in self.values().items() if not callable(v)}
        return json.dumps(plain, indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> HParams:
        """Sets values from JSON."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """The values by name."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or a default of its type.

        Raises:
          ValueError: The default is of another type.
        """
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, is_list = self._hparam_types[key]
            fits = isinstance(default, list) == is_list
            if not fits or (not is_list and not isinstance(default, kind)):
                raise ValueError(
                    f"Hparam '{key}' of type '{kind}' is incompatible with default={default}"
                )
        return getattr(self, key)

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


def _cast(name: str, kind: Any, value: Any) -> Any:
    """`value` as the type of the hyperparameter; only casts that lose nothing are done."""
    message = f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}"
    if kind is type(None) or value is None:
        return value
    if issubclass(kind, str) and not isinstance(value, str):
        raise ValueError(message)
    if issubclass(kind, bool) != isinstance(value, bool):
        raise ValueError(message)
    if issubclass(kind, int) and not isinstance(value, int):
        raise ValueError(message)
    if issubclass(kind, float) and not isinstance(value, int | float):
        raise ValueError(message)
    return kind(value)
