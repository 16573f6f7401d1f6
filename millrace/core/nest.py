"""Nested structures: lists, tuples, namedtuples, dicts and dataclasses of values.

Dicts are walked in the order of their sorted keys, as TensorFlow does.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


def is_nested(seq: Any) -> bool:
    """Whether `seq` is a structure rather than a leaf."""
    return isinstance(seq, list | tuple | Mapping) or (
        dataclasses.is_dataclass(seq) and not isinstance(seq, type)
    )


is_sequence = is_nested


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _children(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        try:
            return [value[key] for key in sorted(value)]
        except TypeError:
            raise TypeError("nest only supports dicts with sortable keys.") from None
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return list(value)


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The leaves in order; a leaf alone gives a list of one."""
    if not is_nested(structure):
        return [structure]
    leaves: list[Any] = []
    for child in _children(structure):
        leaves.extend(flatten(child))
    return leaves


def _rebuild(structure: Any, children: Iterable[Any]) -> Any:
    values = list(children)
    if isinstance(structure, Mapping):
        by_key = dict(zip(sorted(structure), values, strict=True))
        kind = type(structure)
        items = [(key, by_key[key]) for key in structure]
        return OrderedDict(items) if kind is OrderedDict else kind(items)  # type: ignore[call-arg]
    if dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        names = [field.name for field in dataclasses.fields(structure)]
        return type(structure)(**dict(zip(names, values, strict=True)))
    if _is_namedtuple(structure):
        return type(structure)(*values)
    return type(structure)(values)


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """`flat_sequence` in the shape of `structure`.

    Raises:
      ValueError: The number of leaves differs.
    """
    flat = list(flat_sequence)
    if not is_nested(structure):
        if len(flat) != 1:
            raise ValueError(f"Structure is a scalar but len(flat_sequence) == {len(flat)} > 1")
        return flat[0]
    count = len(flatten(structure))
    if count != len(flat):
        raise ValueError(
            "Could not pack sequence. Structure had "
            f"{count} elements, but flat_sequence had {len(flat)} elements.  Structure: "
            f"{structure}, flat_sequence: {flat}."
        )
    leaves = iter(flat)
    return _pack(structure, leaves)


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    return _rebuild(structure, [_pack(child, leaves) for child in _children(structure)])


def map_structure(
    func: Callable[..., Any], *structures: Any, check_types: bool = True, **kwargs: Any
) -> Any:
    """Applies `func` to corresponding leaves and keeps the structure of the first."""
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structures:
        raise ValueError("Must provide at least one structure")
    for other in structures[1:]:
        assert_same_structure(structures[0], other, check_types=check_types)
    columns = [flatten(structure) for structure in structures]
    return pack_sequence_as(structures[0], [func(*leaves) for leaves in zip(*columns, strict=True)])


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Checks that two structures are nested in the same way.

    Raises:
      ValueError: They have different numbers of elements, or one is a leaf.
      TypeError: A pair of sequences differs in type (unless `check_types` is off).
    """
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: {nest1}\n\nSecond structure: {nest2}"
        )
    if not is_nested(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        dict_like = isinstance(nest1, Mapping) and isinstance(nest2, Mapping)
        if not dict_like:
            raise TypeError(
                "The two namedtuples don't have the same sequence type. First structure has type "
                f"{type(nest1)}, while second structure has type {type(nest2)}."
            )
    if isinstance(nest1, Mapping) and isinstance(nest2, Mapping) and set(nest1) != set(nest2):
        raise ValueError(
            "The two dictionaries don't have the same set of keys. First structure has keys "
            f"{list(nest1)}, while second structure has keys {list(nest2)}"
        )
    first, second = _children(nest1), _children(nest2)
    if len(first) != len(second):
        raise ValueError(
            "The two structures don't have the same number of elements.\n\n"
            f"First structure ({len(flatten(nest1))} elements): {nest1}\n\n"
            f"Second structure ({len(flatten(nest2))} elements): {nest2}"
        )
    for a, b in zip(first, second, strict=True):
        assert_same_structure(a, b, check_types)


def flatten_up_to(shallow: Any, deep: Any, check_types: bool = True) -> list[Any]:
    """The parts of `deep` at the leaves of `shallow`."""
    if not is_nested(shallow):
        return [deep]
    if not is_nested(deep):
        raise TypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: "
            f"{type(deep)}."
        )
    if isinstance(shallow, Mapping):
        if set(shallow) != set(deep):
            raise ValueError(
                f"The two structures don't have the same keys: {list(shallow)} and {list(deep)}"
            )
        return [
            part
            for key in sorted(shallow)
            for part in flatten_up_to(shallow[key], deep[key], check_types)
        ]
    first, second = _children(shallow), _children(deep)
    if len(first) != len(second):
        raise ValueError(
            "The two structures don't have the same sequence length. Input structure has length "
            f"{len(second)}, while shallow structure has length {len(first)}."
        )
    return [
        part
        for a, b in zip(first, second, strict=True)
        for part in flatten_up_to(a, b, check_types)
    ]


def map_structure_up_to(shallow: Any, func: Callable[..., Any], *inputs: Any) -> Any:
    """Applies `func` to the parts of `inputs` at the leaves of `shallow`."""
    columns = [flatten_up_to(shallow, value) for value in inputs]
    return pack_sequence_as(shallow, [func(*parts) for parts in zip(*columns, strict=True)])
