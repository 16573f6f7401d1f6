"""`tf.sets`: the last dimension of a tensor as a set. Host kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.slices import (
    SparseTensor,
    SparseTensorValue,
    convert_to_tensor_or_sparse_tensor,
)
from millrace.graph.tensor import Tensor
from millrace.ops.sparse.sparse import check_order, unknown_sparse

__all__: list[str] = []

_TYPES = "T: {int8, int16, int32, int64, uint8, uint16, string}"
_VALID = frozenset(
    (
        dtypes.int8,
        dtypes.int16,
        dtypes.int32,
        dtypes.int64,
        dtypes.uint8,
        dtypes.uint16,
        dtypes.string,
    )
)
_OUT = (
    "(result_indices: int64, result_values: T, result_shape: int64) where set_operation: string; "
    f"validate_indices: bool = true; {_TYPES}"
)

Groups = dict[tuple[int, ...], set[Any]]


def _sparse_groups(indices: Any, values: Any, shape: Any, validate: bool) -> Groups:
    if validate:
        check_order(indices, tuple(int(s) for s in shape), np, _check_now)
    groups: Groups = {}
    for index, value in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        groups.setdefault(tuple(index), set()).add(value)
    return groups


def _check_now(ok: Any, message: Any, *values: Any) -> None:
    if not np.all(ok):
        raise ValueError(message(*values))


def _dense_groups(array: Any) -> Groups:
    outer = array.shape[:-1]
    rows = array.reshape(-1, array.shape[-1]) if array.size else np.empty((0, 0), array.dtype)
    return {
        tuple(int(i) for i in index): set(row.tolist())
        for index, row in zip(np.ndindex(outer), rows, strict=False)
    }


def _combined(a: set[Any], b: set[Any], operation: bytes) -> set[Any]:
    if operation == b"intersection":
        return a & b
    if operation == b"union":
        return a | b
    if operation == b"a-b":
        return a - b
    if operation == b"b-a":
        return b - a
    raise ValueError(f"Invalid set_operation {operation.decode()}.")


def _operate(
    a: Groups, b: Groups, a_outer: Any, b_outer: Any, operation: bytes, dtype: Any
) -> tuple[Any, Any, Any]:
    outer = tuple(int(s) for s in a_outer)
    if outer != tuple(int(s) for s in b_outer):
        raise ValueError(f"Mismatched shapes {list(outer)} vs {[int(s) for s in b_outer]}")
    indices: list[tuple[int, ...]] = []
    values: list[Any] = []
    most = 0
    for group in sorted({*a, *b}):
        found = sorted(_combined(a.get(group, set()), b.get(group, set()), operation))
        indices.extend((*group, i) for i in range(len(found)))
        values.extend(found)
        most = max(most, len(found))
    result = np.empty(len(values), dtype)
    result[:] = values
    where = np.array(indices, np.int64).reshape(len(values), len(outer) + 1)
    return where, result, np.array([*outer, most], np.int64)


def _set_shape(c: ShapeContext) -> list[TensorShape]:
    names = c.op.definition.signature
    ranks = []
    if any(arg.name == "set1" for arg in names.inputs):
        ranks.append(c.shape("set1").ndims)
    if any(arg.name == "set2" for arg in names.inputs):
        ranks.append(c.shape("set2").ndims)
    for arg in ("set1_shape", "set2_shape"):
        if any(item.name == arg for item in names.inputs):
            ranks.append(c.shape(arg).with_rank(1)[0].value)
    for rank in ranks:
        if rank is not None and rank < 2:
            raise ValueError(f"Shape must be at least rank 2 but is rank {rank}")
    if c.op.type == "DenseToDenseSetOperation":
        a, b = c.shape("set1"), c.shape("set2")
        if a.ndims is not None and b.ndims is not None:
            if a.ndims != b.ndims:
                raise ValueError(f"Shape must be rank {a.ndims} but is rank {b.ndims}")
            a[:-1].assert_is_compatible_with(b[:-1])
    known = [rank for rank in ranks if rank is not None]
    return unknown_sparse(known[0] if known else None)


@op(
    f"DenseToDenseSetOperation(set1: T, set2: T) -> {_OUT}",
    shape=_set_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DenseToDenseSetOperation(set1: Any, set2: Any, *, set_operation: bytes) -> Any:
    """A set operation on the rows of two dense tensors."""
    return _operate(
        _dense_groups(set1),
        _dense_groups(set2),
        set1.shape[:-1],
        set2.shape[:-1],
        set_operation,
        set1.dtype,
    )


@op(
    "DenseToSparseSetOperation(set1: T, set2_indices: int64, set2_values: T, "
    f"set2_shape: int64) -> {_OUT}",
    shape=_set_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DenseToSparseSetOperation(
    set1: Any,
    set2_indices: Any,
    set2_values: Any,
    set2_shape: Any,
    *,
    set_operation: bytes,
    validate_indices: bool,
) -> Any:
    """A set operation on the rows of a dense and a sparse tensor."""
    return _operate(
        _dense_groups(set1),
        _sparse_groups(set2_indices, set2_values, set2_shape, validate_indices),
        set1.shape[:-1],
        set2_shape[:-1],
        set_operation,
        set1.dtype,
    )


@op(
    "SparseToSparseSetOperation(set1_indices: int64, set1_values: T, set1_shape: int64, "
    f"set2_indices: int64, set2_values: T, set2_shape: int64) -> {_OUT}",
    shape=_set_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def SparseToSparseSetOperation(
    set1_indices: Any,
    set1_values: Any,
    set1_shape: Any,
    set2_indices: Any,
    set2_values: Any,
    set2_shape: Any,
    *,
    set_operation: bytes,
    validate_indices: bool,
) -> Any:
    """A set operation on the rows of two sparse tensors."""
    return _operate(
        _sparse_groups(set1_indices, set1_values, set1_shape, validate_indices),
        _sparse_groups(set2_indices, set2_values, set2_shape, validate_indices),
        set1_shape[:-1],
        set2_shape[:-1],
        set_operation,
        set1_values.dtype,
    )


def _size_shape(c: ShapeContext) -> TensorShape:
    known = c.value_as_shape("set_shape")
    return unknown_shape() if known.ndims is None else known[:-1]


@op(
    "SetSize(set_indices: int64, set_values: T, set_shape: int64) -> size: int32 where "
    f"validate_indices: bool = true; {_TYPES}",
    shape=_size_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def SetSize(set_indices: Any, set_values: Any, set_shape: Any, *, validate_indices: bool) -> Any:
    """How many different values each row holds."""
    groups = _sparse_groups(set_indices, set_values, set_shape, validate_indices)
    sizes = np.zeros(tuple(int(s) for s in set_shape[:-1]), np.int32)
    for group, members in groups.items():
        sizes[group] = len(members)
    return sizes


def _operands(a: Any, b: Any) -> Iterator[Any]:
    for value, name in ((a, "a"), (b, "b")):
        converted = convert_to_tensor_or_sparse_tensor(value, name=name)
        if converted.dtype.base_dtype not in _VALID:
            raise TypeError(
                f"'{name}' has invalid dtype `{converted.dtype!r}` not in supported dtypes: "
                f"`{_VALID}`."
            )
        yield converted


def _set_operation(a: Any, b: Any, operation: str, validate_indices: bool) -> SparseTensor:
    first, second = _operands(a, b)
    if first.dtype.base_dtype != second.dtype.base_dtype:
        raise TypeError(f"Types don't match, {first.dtype} vs {second.dtype}.")
    options: dict[str, Any] = {"validate_indices": validate_indices}
    if isinstance(first, SparseTensor) and not isinstance(second, SparseTensor):
        # There is no op for a sparse and a dense set: the other way round there is.
        first, second = second, first
        operation = {"a-b": "b-a", "b-a": "a-b"}.get(operation, operation)
    options["set_operation"] = operation
    if isinstance(first, SparseTensor):
        parts = SparseToSparseSetOperation(
            first.indices,
            first.values,
            first.dense_shape,
            second.indices,
            second.values,
            second.dense_shape,
            **options,
        )
    elif isinstance(second, SparseTensor):
        parts = DenseToSparseSetOperation(
            first, second.indices, second.values, second.dense_shape, **options
        )
    else:
        parts = DenseToDenseSetOperation(first, second, **options)
    return SparseTensor(*parts)


def set_size(a: Any, validate_indices: bool = True) -> Tensor:
    """How many different values there are along the last dimension of a SparseTensor."""
    if isinstance(a, SparseTensorValue):
        a = SparseTensor.from_value(a)
    if not isinstance(a, SparseTensor):
        raise TypeError(f"Expected `SparseTensor`, got {a}.")
    if a.dtype.base_dtype not in _VALID:
        raise TypeError(f"Invalid dtype `{a.dtype!r}` not in supported dtypes: `{_VALID}`.")
    return SetSize(a.indices, a.values, a.dense_shape, validate_indices=validate_indices)


def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The values that both have, by the last dimension."""
    return _set_operation(a, b, "intersection", validate_indices)


def set_difference(
    a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True
) -> SparseTensor:
    """The values of one that the other does not have, by the last dimension."""
    return _set_operation(a, b, "a-b" if aminusb else "b-a", validate_indices)


def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The values that either has, by the last dimension."""
    return _set_operation(a, b, "union", validate_indices)
