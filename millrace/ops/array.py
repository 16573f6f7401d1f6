"""The array family under one name: ``array.reshape``, ``array.concat``, ``array.where``.

For other op modules. The names are looked up when they are used, so that modules that import
each other in a circle may be loaded in any order.
"""

from __future__ import annotations

from millrace.ops import (
    array_blocks,
    array_diag,
    array_fill,
    array_gather,
    array_identity,
    array_indexing,
    array_join,
    array_layout,
    array_order,
    array_pad,
    array_select,
    array_sets,
    array_shape,
    array_slicing,
    constant,
)

_HOMES = (
    array_shape,
    array_join,
    array_slicing,
    array_indexing,
    array_fill,
    array_gather,
    array_select,
    array_sets,
    array_layout,
    array_order,
    array_pad,
    array_identity,
    array_diag,
    array_blocks,
    constant,
)

__all__ = ["newaxis"]

newaxis = None


# Without annotations: mypy takes those of a module's __getattr__ too late in import cycles.
def __getattr__(name):  # type: ignore[no-untyped-def]
    if not name.startswith("__"):
        for home in _HOMES:
            if name in home.__dict__:
                return home.__dict__[name]
    raise AttributeError(f"The array ops have no {name!r}")
