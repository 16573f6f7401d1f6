"""What programs take from TensorFlow's python.data.util.nest: there lists are leaves."""

from collections.abc import Callable
from typing import Any

from millrace.ops.data.structure import flatten, flatten_up_to, is_nested, map_leaves, pack

is_sequence = is_nested


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """A structure like `structure` with other leaves."""
    return pack(structure, flat_sequence)


def map_structure(func: Callable[..., Any], *structure: Any, **_: Any) -> Any:
    """The structure of the results of a function on the leaves."""
    return map_leaves(func, *structure)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raises unless both have one form."""
    flatten_up_to(nest1, nest2)
    flatten_up_to(nest2, nest1)
