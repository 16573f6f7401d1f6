"""`tf.assign` and its kin: functions that change a variable or what refers to one.

Each takes a variable, or a reference tensor (what another of them returned).
"""

from __future__ import annotations

from typing import Any

from millrace.graph import registry
from millrace.graph.tensor import Tensor
from millrace.ops.state import variable, variable_ops
from millrace.ops.state.resource_variable import ResourceVariable

__all__ = [
    "assign",
    "assign_add",
    "assign_sub",
    "batch_scatter_update",
    "count_up_to",
    "scatter_add",
    "scatter_div",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_nd_add",
    "scatter_nd_sub",
    "scatter_nd_update",
    "scatter_sub",
    "scatter_update",
]


def assign(
    ref: Any,
    value: Any,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Any:
    """Replaces a variable's value.

    Args:
      ref: A variable, a reference tensor, or a slice of a variable.
      value: The new value.
      validate_shape: Whether it must have the variable's shape; true when None.
      use_locking: Kept for graphs; updates here never interleave.
      name: The node's name.

    Returns:
      What reads the new value.
    """
    if isinstance(ref, ResourceVariable):
        return ref.assign(value, name=name)
    # ``v[1:3]`` is no reference, but knows which part of which variable it is.
    if isinstance(ref, Tensor) and (change := getattr(ref, "assign", None)) is not None:
        return change(value, name=name)
    return variable_ops.Assign(
        ref, value, validate_shape=validate_shape, use_locking=use_locking, name=name
    )


def assign_add(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Adds to a variable's value; returns what reads the new one."""
    if isinstance(ref, ResourceVariable):
        return ref.assign_add(value, name=name)
    return variable_ops.AssignAdd(ref, value, use_locking=use_locking, name=name)


def assign_sub(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Subtracts from a variable's value; returns what reads the new one."""
    if isinstance(ref, ResourceVariable):
        return ref.assign_sub(value, name=name)
    return variable_ops.AssignSub(ref, value, use_locking=use_locking, name=name)


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Any:
    """The value before it is incremented; OutOfRangeError once it is `limit`."""
    if isinstance(ref, ResourceVariable):
        return variable_ops.ResourceCountUpTo(ref.handle, limit=limit, T=ref.dtype, name=name)
    return variable_ops.CountUpTo(ref, limit=limit, name=name)


def _scatter(kind: str, ref: Any, indices: Any, updates: Any, locking: bool, name: Any) -> Any:
    if isinstance(ref, variable.Variable):
        return ref._change(kind, indices, updates, name=name, use_locking=locking)
    builder: Any = registry.lookup(kind)
    return builder(ref, indices, updates, use_locking=locking, name=name)


def scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Replaces the rows `indices` of a variable by `updates`.

    Args:
      ref: A variable, or a reference tensor.
      indices: Row numbers, of any shape.
      updates: ``indices.shape + ref.shape[1:]``, or a scalar.
      use_locking: Kept for graphs; updates here never interleave.
      name: The node's name.

    Returns:
      What reads the new value. A row out of range fails the step.
    """
    return _scatter("ScatterUpdate", ref, indices, updates, use_locking, name)


def scatter_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Adds to rows of a variable; see `scatter_update`."""
    return _scatter("ScatterAdd", ref, indices, updates, use_locking, name)


def scatter_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Subtracts from rows of a variable; see `scatter_update`."""
    return _scatter("ScatterSub", ref, indices, updates, use_locking, name)


def scatter_mul(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Multiplies rows of a variable; see `scatter_update`."""
    return _scatter("ScatterMul", ref, indices, updates, use_locking, name)


def scatter_div(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Divides rows of a variable; see `scatter_update`."""
    return _scatter("ScatterDiv", ref, indices, updates, use_locking, name)


def scatter_min(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """The lesser of rows of a variable and `updates`; see `scatter_update`."""
    return _scatter("ScatterMin", ref, indices, updates, use_locking, name)


def scatter_max(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """The greater of rows of a variable and `updates`; see `scatter_update`."""
    return _scatter("ScatterMax", ref, indices, updates, use_locking, name)


def scatter_nd_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Replaces elements or slices of a variable.

    Args:
      ref: A variable, or a reference tensor.
      indices: ``[..., k]``: coordinates in the first k dimensions.
      updates: ``indices.shape[:-1] + ref.shape[k:]``.
      use_locking: Kept for graphs; updates here never interleave.
      name: The node's name.
    """
    return _scatter("ScatterNdUpdate", ref, indices, updates, use_locking, name)


def scatter_nd_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Adds to elements or slices of a variable; see `scatter_nd_update`."""
    return _scatter("ScatterNdAdd", ref, indices, updates, use_locking, name)


def scatter_nd_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Subtracts from elements or slices of a variable; see `scatter_nd_update`."""
    return _scatter("ScatterNdSub", ref, indices, updates, use_locking, name)


def batch_scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Replaces ``ref[b, indices[b, j]]`` by ``updates[b, j]`` for all leading positions b."""
    if isinstance(ref, Tensor):
        raise TypeError(f"batch_scatter_update needs a variable, not {ref}")
    return variable.batch_scatter_update(ref, indices, updates, use_locking, name)
