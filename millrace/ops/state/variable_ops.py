"""Op types that are, read and change variables.

A variable reaches a kernel as a VariableRef (see docs/adding-an-op.md): `read` gives the
current value, `write` replaces it, and inside a compiled stage both are names for values of
one XLA program, so that an update happens in place. Kernels check shapes while they are
traced. Changes of parts of a variable are in `variable_slices`; the public functions are in
`variables`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.tensor_shape import TensorShape, scalar, unknown_shape
from millrace.graph.define import Op, op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import (
    ShapeContext,
    from_attr,
    merge_shapes,
    merged,
    none,
    scalars,
    unchanged,
)
from millrace.graph.tensor import Tensor

__all__: list[str] = []


def shape_text(shape: Any) -> str:
    """A shape as TensorFlow's run-time messages write it: ``[2,3]``."""
    return "[" + ",".join(str(size) for size in shape) + "]"


# -- Variables themselves ------------------------------------------------------------------


def _variable_shape(c: ShapeContext) -> TensorShape:
    # The first release of the op could not say "unknown": it wrote a scalar's shape.
    shape: TensorShape = c.attr("shape")
    return unknown_shape() if shape.ndims == 0 else shape


@op(
    'VariableV2() -> ref: ref(dtype) where shape: shape; dtype: type; container: string = ""; '
    'shared_name: string = ""',
    shape=from_attr("shape"),
    gradient=NO_GRADIENT,
    stateful=True,
)
def VariableV2(*, variable: Any) -> Any:
    """A variable, as a reference to its value."""
    return variable


@op(
    'Variable() -> ref: ref(dtype) where shape: shape; dtype: type; container: string = ""; '
    'shared_name: string = ""',
    shape=_variable_shape,
    gradient=NO_GRADIENT,
    stateful=True,
)
def Variable(*, variable: Any) -> Any:
    """The form of `VariableV2` in the first releases."""
    return variable


@op(
    'TemporaryVariable() -> ref: ref(dtype) where shape: shape; dtype: type; var_name: string = ""',
    shape=from_attr("shape"),
    gradient=NO_GRADIENT,
    stateful=True,
)
def TemporaryVariable(*, variable: Any) -> Any:
    """A variable that lives until DestroyTemporaryVariable takes its value."""
    return variable


@op(
    "DestroyTemporaryVariable(ref: ref(T)) -> value: T where T: type; var_name: string",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
    updates=("ref",),
)
def DestroyTemporaryVariable(ref: Any) -> Any:
    """The last value of a temporary variable."""
    value = ref.read()
    ref.clear()
    return value


def _handle_shape(c: ShapeContext) -> TensorShape:
    c.op.outputs[0].handle_data = (c.attr("shape"), c.attr("dtype"))
    return scalar()


@op(
    'VarHandleOp() -> resource: resource where container: string = ""; '
    'shared_name: string = ""; debug_name: string = ""; dtype: type; shape: shape; '
    "allowed_devices: list(string) = []",
    shape=_handle_shape,
    gradient=NO_GRADIENT,
    stateful=True,
)
def VarHandleOp(*, variable: Any) -> Any:
    """A variable, as a handle."""
    return variable


# -- Whole values --------------------------------------------------------------------------


def shape_behind_handle(c: ShapeContext, dtype: Any) -> TensorShape:
    """The shape behind the handle at input 0, which must hold values of `dtype`."""
    behind = c.handle(0)
    if behind is None:
        return unknown_shape()
    shape, found = behind
    if found != dtype:
        raise ValueError(
            f"Trying to read variable with wrong dtype. Expected {found.name} got {dtype.name}"
        )
    return shape


def _read_shape(c: ShapeContext) -> TensorShape:
    return shape_behind_handle(c, c.attr("dtype"))


def _identity_gradient(op: Operation, grad: Tensor) -> Any:
    return grad


@op(
    "ReadVariableOp(resource: resource) -> value: dtype",
    shape=_read_shape,
    gradient=_identity_gradient,
    stateful=True,
)
def ReadVariableOp(resource: Any, *, xp: Any) -> Any:
    """The value behind a handle."""
    return resource.read()


def _assign_shape(c: ShapeContext) -> TensorShape:
    if not c.attr("validate_shape"):
        return c.shape(1)
    return merge_shapes(c.shape(0), c.shape(1))


def _declared_sizes(variable: Any) -> tuple[int, ...] | None:
    """The shape that every value of the variable has, if it was declared."""
    shape: TensorShape = variable.declared_shape
    if not shape.is_fully_defined() or (variable.node.type == "Variable" and shape.ndims == 0):
        return None
    return tuple(int(size or 0) for size in shape.as_list())


@op(
    "Assign(ref: ref(T), value: T) -> output_ref: ref(T) where validate_shape: bool = true; "
    "use_locking: bool = true",
    shape=_assign_shape,
    gradient=NO_GRADIENT,
    overwrites=("ref",),
)
def Assign(ref: Any, value: Any, *, validate_shape: bool, xp: Any) -> Any:
    """Replaces a variable's value."""
    sizes = _declared_sizes(ref)
    if validate_shape and sizes is not None and value.shape != sizes:
        raise ValueError(
            "Assign requires shapes of both tensors to match. "
            f"lhs shape= {shape_text(sizes)} rhs shape= {shape_text(value.shape)}"
        )
    ref.write(value)
    return ref


def _assign_variable_shape(c: ShapeContext) -> list[TensorShape]:
    merge_shapes(shape_behind_handle(c, c.attr("dtype")), c.shape(1))
    return []


@op(
    "AssignVariableOp(resource: resource, value: dtype) where validate_shape: bool = false",
    shape=_assign_variable_shape,
    gradient=NO_GRADIENT,
    overwrites=("resource",),
    stateful=True,
)
def AssignVariableOp(resource: Any, value: Any, *, validate_shape: bool, xp: Any) -> None:
    """Replaces the value behind a handle."""
    sizes = _declared_sizes(resource)
    if validate_shape and sizes is not None and value.shape != sizes:
        raise ValueError(
            "Trying to assign to variable with tensor with wrong shape. "
            f"Expected {shape_text(sizes)} got {shape_text(value.shape)}"
        )
    resource.write(value)


def _accumulate(variable: Any, value: Any, sign: int) -> None:
    current = variable.read()
    if current.shape != value.shape:
        raise ValueError(
            f"Cannot update variable with shape {shape_text(current.shape)} using a Tensor with "
            f"shape {shape_text(value.shape)}, shapes must be equal. Parameters and update must "
            "be the same size"
        )
    variable.write(current + value if sign > 0 else current - value)


def _accumulating_ops(name: str, sign: int) -> tuple[Op, Op]:
    """The reference and the resource form of an addition or subtraction."""

    @op(
        f"{name}(ref: ref(T), value: T) -> output_ref: ref(T) where T: number; "
        "use_locking: bool = false",
        shape=merged,
        gradient=NO_GRADIENT,
        updates=("ref",),
    )
    def by_reference(ref: Any, value: Any, *, xp: Any) -> Any:
        _accumulate(ref, value, sign)
        return ref

    @op(
        f"{name}VariableOp(resource: resource, value: dtype)",
        shape=_assign_variable_shape,
        gradient=NO_GRADIENT,
        updates=("resource",),
        stateful=True,
    )
    def by_handle(resource: Any, value: Any, *, xp: Any) -> None:
        _accumulate(resource, value, sign)

    return by_reference, by_handle


AssignAdd, AssignAddVariableOp = _accumulating_ops("AssignAdd", 1)
AssignSub, AssignSubVariableOp = _accumulating_ops("AssignSub", -1)


# -- Questions about a variable ------------------------------------------------------------


@op(
    "IsVariableInitialized(ref: ref(dtype)) -> is_initialized: bool",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def IsVariableInitialized(ref: Any) -> Any:
    """Whether a variable has a value."""
    return np.asarray(ref.is_initialized())


@op(
    "VarIsInitializedOp(resource: resource) -> is_initialized: bool",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def VarIsInitializedOp(resource: Any) -> Any:
    """Whether the variable behind a handle has a value."""
    return np.asarray(resource.is_initialized())


def _shape_of_handle(c: ShapeContext) -> TensorShape:
    behind = c.handle(0)
    return TensorShape([None if behind is None else behind[0].ndims])


@op(
    "VariableShape(input: resource) -> output: out_type where out_type: index = int32",
    shape=_shape_of_handle,
    gradient=NO_GRADIENT,
    stateful=True,
)
def VariableShape(input: Any, *, out_type: Any, xp: Any) -> Any:
    """The shape of the value behind a handle."""
    sizes = _declared_sizes(input)
    return np.asarray(input.read().shape if sizes is None else sizes, out_type.as_numpy_dtype)


@op(
    "DestroyResourceOp(resource: resource) where ignore_lookup_error: bool = true",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    overwrites=("resource",),
    stateful=True,
)
def DestroyResourceOp(resource: Any, *, ignore_lookup_error: bool) -> None:
    """Takes the value of a variable away."""
    if not resource.is_initialized() and not ignore_lookup_error:
        raise errors.NotFoundError(None, None, f"Resource {resource.name} does not exist.")
    resource.clear()


def _count_up_to(variable: Any, limit: int) -> Any:
    value = variable.read()
    if value.shape:
        raise ValueError(f"Input is not a scalar: {shape_text(value.shape)}")
    if value >= limit:
        raise errors.OutOfRangeError(None, None, f"Reached limit of {limit}")
    variable.write(np.asarray(value + 1, value.dtype))
    return value


# On the host: at the limit the step must fail with OutOfRangeError before anything changes.


@op(
    "CountUpTo(ref: ref(T)) -> output: T where limit: int; T: index",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    updates=("ref",),
)
def CountUpTo(ref: Any, *, limit: int) -> Any:
    """The value before it is incremented; OutOfRangeError once it is `limit`."""
    return _count_up_to(ref, limit)


@op(
    "ResourceCountUpTo(resource: resource) -> output: T where limit: int; T: index",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    updates=("resource",),
    stateful=True,
)
def ResourceCountUpTo(resource: Any, *, limit: int) -> Any:
    """As CountUpTo, for a handle."""
    return _count_up_to(resource, limit)
