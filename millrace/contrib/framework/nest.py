"""`tf.contrib.framework.nest`: `tf.nest`, and what TensorFlow keeps in its python.util.nest."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from millrace.core.nest import (
    assert_same_structure,
    flatten,
    flatten_up_to,
    is_nested,
    map_structure,
    pack_sequence_as,
)

__all__ = [
    "assert_same_structure",
    "assert_shallow_structure",
    "flatten",
    "flatten_dict_items",
    "flatten_up_to",
    "flatten_with_joined_string_paths",
    "flatten_with_tuple_paths",
    "get_traverse_shallow_structure",
    "is_nested",
    "is_nested_or_composite",
    "is_sequence",
    "is_sequence_or_composite",
    "map_structure",
    "map_structure_up_to",
    "map_structure_with_paths",
    "map_structure_with_tuple_paths",
    "pack_sequence_as",
    "yield_flattened_paths",
]

is_sequence = is_nested
is_sequence_or_composite = is_nested


def is_nested_or_composite(seq: Any) -> bool:
    """Whether it is a structure."""
    return is_nested(seq)


def assert_shallow_structure(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, **_: Any
) -> None:
    """Raises unless `shallow_tree` is the upper part of `input_tree`."""
    flatten_up_to(shallow_tree, input_tree, check_types)


def flatten_dict_items(dictionary: Mapping[Any, Any]) -> dict[Any, Any]:
    """A dict whose keys and values may be structures of one form, with one item per leaf.

    Raises:
      TypeError: It is no dict.
      ValueError: A key and its value have different forms, or a key is there twice.
    """
    if not isinstance(dictionary, Mapping):
        raise TypeError("input must be a dictionary")
    flat: dict[Any, Any] = {}
    for key, value in dictionary.items():
        pairs = [(key, value)]
        if is_nested(key):
            keys, values = flatten(key), flatten(value)
            if len(keys) != len(values):
                raise ValueError(
                    f"Could not flatten dictionary. Key had {len(keys)} elements, but value had "
                    f"{len(values)} elements. Key: {keys}, value: {values}."
                )
            pairs = list(zip(keys, values, strict=True))
        for one, its in pairs:
            if one in flat:
                raise ValueError(f"Could not flatten dictionary: key {one} is not unique.")
            flat[one] = its
    return flat


def _paths(structure: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if not is_nested(structure):
        yield path, structure
        return
    if isinstance(structure, Mapping):
        items: Any = ((key, structure[key]) for key in sorted(structure))
    elif hasattr(structure, "_fields"):
        items = zip(structure._fields, structure, strict=True)
    else:
        items = enumerate(structure)
    for key, value in items:
        yield from _paths(value, (*path, key))


def flatten_with_tuple_paths(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Each leaf with its path as a tuple."""
    return list(_paths(structure))


def flatten_with_joined_string_paths(
    structure: Any, separator: str = "/", expand_composites: bool = False
) -> list[Any]:
    """Each leaf with its path as a string."""
    return [(separator.join(map(str, path)), leaf) for path, leaf in _paths(structure)]


def yield_flattened_paths(structure: Any, expand_composites: bool = False) -> Iterator[Any]:
    """The path of each leaf, as a tuple."""
    return (path for path, _ in _paths(structure))


def map_structure_with_tuple_paths(func: Callable[..., Any], *structure: Any, **_: Any) -> Any:
    """Calls `func` with each leaf's path, as a tuple, and the leaves of all structures there."""
    for other in structure[1:]:
        assert_same_structure(structure[0], other)
    paths = [path for path, _ in _paths(structure[0])]
    leaves = zip(*(flatten(each) for each in structure), strict=True)
    results = [func(path, *group) for path, group in zip(paths, leaves, strict=True)]
    return pack_sequence_as(structure[0], results)


def map_structure_with_paths(func: Callable[..., Any], *structure: Any, **_: Any) -> Any:
    """As `map_structure_with_tuple_paths`, with paths as strings."""
    return map_structure_with_tuple_paths(
        lambda path, *leaves: func("/".join(map(str, path)), *leaves), *structure
    )


def map_structure_up_to(
    shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **kwargs: Any
) -> Any:
    """Calls `func` with what each leaf of `shallow_tree` has in the inputs, in its form."""
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    check_types = kwargs.get("check_types", True)
    parts = (flatten_up_to(shallow_tree, each, check_types) for each in inputs)
    results = [func(*group) for group in zip(*parts, strict=True)]
    return pack_sequence_as(shallow_tree, results)


def get_traverse_shallow_structure(
    traverse_fn: Callable[[Any], Any], structure: Any, expand_composites: bool = False
) -> Any:
    """The upper part of a structure into which `traverse_fn` says to look: True at its leaves.

    Raises:
      TypeError: `traverse_fn` returned neither a bool nor a structure of bools.
    """
    wanted = traverse_fn(structure)
    if not is_nested(structure):
        if not isinstance(wanted, bool):
            raise TypeError(f"traverse_fn returned structure: {wanted} for non-structure")
        return wanted
    if isinstance(wanted, bool):
        if not wanted:
            return False
        wanted = _all_true(structure)
    below = []
    for into, part in zip(_children(wanted), _children(structure), strict=True):
        if not isinstance(into, bool):
            raise TypeError(f"traverse_fn didn't return a depth=1 structure of bools: {wanted}")
        below.append(get_traverse_shallow_structure(traverse_fn, part) if into else False)
    return _with_children(structure, below)


def _all_true(structure: Any) -> Any:
    """A structure of the same uppermost form, True everywhere."""
    return _with_children(structure, [True] * len(_children(structure)))


def _children(structure: Any) -> list[Any]:
    if isinstance(structure, Mapping):
        return [structure[key] for key in sorted(structure)]
    return list(structure)


def _with_children(structure: Any, children: list[Any]) -> Any:
    if isinstance(structure, Mapping):
        return type(structure)(zip(sorted(structure), children, strict=True))  # type: ignore[call-arg]
    if hasattr(structure, "_fields"):
        return type(structure)(*children)
    return type(structure)(children)
