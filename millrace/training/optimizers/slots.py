"""Slots: variables that an optimizer or moving average keeps beside another variable."""

from __future__ import annotations

from typing import Any

from millrace.graph.defaults import colocate_with
from millrace.ops.array import fill as array_fill
from millrace.ops.array import shape as array_shape
from millrace.ops.state import initializers, variable_scope
from millrace.ops.state.variable import Variable


def create_slot(
    primary: Any, value: Any, name: str, colocate_with_primary: bool = True
) -> Variable:
    """A variable beside `primary`, named ``primary/name``, first holding `value`.

    A slot of a slice of a partitioned variable is saved as the same slice of a larger slot.
    """
    scope = f"{primary.op.name}/{name}"
    with variable_scope.variable_scope(None, scope):
        if not colocate_with_primary:
            return _slot_variable(primary, value)
        with colocate_with(primary):
            return _slot_variable(primary, value)


def _slot_variable(primary: Any, value: Any, **keywords: Any) -> Variable:
    scope = variable_scope.get_variable_scope()
    partitioner = scope.partitioner
    scope.set_partitioner(None)
    try:
        slot: Variable = variable_scope.get_variable(
            "",
            initializer=value,
            trainable=False,
            use_resource=_is_resource(primary),
            **keywords,
        )
    finally:
        scope.set_partitioner(partitioner)
    info = primary._get_save_slice_info() if hasattr(primary, "_get_save_slice_info") else None
    rank = slot.shape.ndims
    if info is not None and rank != 0:
        # The slot's own name: that of a second slot ends in _1.
        name = slot.op.name[len(primary.op.name) + 1 :]
        slot._set_save_slice_info(
            type(info)(
                f"{info.full_name}/{name}",
                list(info.full_shape)[:rank],
                list(info.var_offset)[:rank],
                list(info.var_shape)[:rank],
            )
        )
    return slot


def _is_resource(variable: Any) -> bool:
    return getattr(variable, "handle", None) is not None


def create_slot_with_initializer(
    primary: Any,
    initializer: Any,
    shape: Any,
    dtype: Any,
    name: str,
    colocate_with_primary: bool = True,
) -> Variable:
    """As `create_slot`, with an initializer function, a shape and a type."""
    scope = f"{primary.op.name}/{name}"
    with variable_scope.variable_scope(None, scope):
        if not colocate_with_primary:
            return _slot_variable(primary, initializer, shape=shape, dtype=dtype)
        with colocate_with(primary):
            return _slot_variable(primary, initializer, shape=shape, dtype=dtype)


def create_zeros_slot(
    primary: Any, name: str, dtype: Any = None, colocate_with_primary: bool = True
) -> Variable:
    """A slot of zeros in the shape of `primary`."""
    kind = primary.dtype.base_dtype if dtype is None else dtype
    if primary.shape.is_fully_defined():
        return create_slot_with_initializer(
            primary,
            initializers.zeros_initializer(),
            primary.shape,
            kind,
            name,
            colocate_with_primary,
        )
    value = array_fill.zeros(array_shape.shape(primary.initialized_value()), dtype=kind)
    return create_slot(primary, value, name, colocate_with_primary)
