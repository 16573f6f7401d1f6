"""`tf.sets`: the last dimension of a tensor as a set. Host kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from millrace.core import dtypes, pieces
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


class _Members(NamedTuple):
    """The members of some sets, one an element.

    Attributes:
      sets: Which set each is in: an index per row.
      values: The members; one may be there twice.
      outer: The shape of all the sets.
    """

    sets: Any
    values: Any
    outer: tuple[int, ...]


def _sparse_members(indices: Any, values: Any, shape: Any, validate: bool) -> _Members:
    if validate:
        check_order(indices, tuple(int(s) for s in shape), np, _check_now)
    return _Members(indices[:, :-1], values, tuple(int(s) for s in shape[:-1]))


def _check_now(ok: Any, message: Any, *values: Any) -> None:
    if not np.all(ok):
        raise ValueError(message(*values))


def _dense_members(array: Any) -> _Members:
    outer = array.shape[:-1]
    if not array.size:
        return _Members(np.empty((0, len(outer)), np.int64), array.reshape(-1), outer)
    sets = np.unravel_index(np.arange(array.size) // array.shape[-1], outer)
    return _Members(np.stack(sets, axis=1), array.reshape(-1), outer)


# NumPy's own functions for sets keep everybody else from running while they work.


def _distinct(values: Any) -> Any:
    ordered = np.sort(values)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def _in_both(a: Any, b: Any) -> Any:
    ordered = np.sort(np.concatenate([_distinct(a), _distinct(b)]))
    return ordered[1:][ordered[1:] == ordered[:-1]]


def _only_in_first(a: Any, b: Any) -> Any:
    found = _distinct(a)
    others = np.append(np.sort(b), -1)
    return found[others[np.searchsorted(others[:-1], found)] != found]


_OPERATIONS: dict[bytes, Callable[[Any, Any], Any]] = {
    b"intersection": _in_both,
    b"union": lambda a, b: _distinct(np.concatenate([a, b])),
    b"a-b": _only_in_first,
    b"b-a": lambda a, b: _only_in_first(b, a),
}


def _numbered_rows(rows: Any) -> tuple[Any, Any]:
    """The different rows of a matrix, in order, and for each row the number of the one it is.

    `np.unique` does the same by comparing rows as Python objects: far slower, and nobody else runs.
    """
    order = np.lexsort(rows.T[::-1])
    sorted_rows = rows[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (sorted_rows[1:] != sorted_rows[:-1]).any(axis=1)
    numbers = np.empty(len(rows), np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    return sorted_rows[is_new], numbers


def _operate(a: _Members, b: _Members, operation: bytes) -> tuple[Any, Any, Any]:
    """A set operation, on numbers that stand for a set and a member of it."""
    if a.outer != b.outer:
        raise ValueError(f"Mismatched shapes {list(a.outer)} vs {list(b.outer)}")
    if operation not in _OPERATIONS:
        raise ValueError(f"Invalid set_operation {operation.decode()}.")
    sets, set_numbers = _numbered_rows(np.concatenate([a.sets, b.sets]).astype(np.int64))
    members, numbers = pieces.numbered(np.concatenate([a.values, b.values]))
    size = max(len(members), 1)
    pairs = set_numbers * size + numbers
    found = _OPERATIONS[operation](pairs[: len(a.values)], pairs[len(a.values) :])
    owners = found // size
    counts = np.bincount(owners, minlength=len(sets))
    places = np.arange(len(found)) - (np.cumsum(counts) - counts)[owners]
    indices = np.concatenate([sets[owners], places[:, None]], axis=1).astype(np.int64)
    most = int(counts.max(initial=0))
    return indices, members[found % size], np.array([*a.outer, most], np.int64)


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
    return _operate(_dense_members(set1), _dense_members(set2), set_operation)


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
    other = _sparse_members(set2_indices, set2_values, set2_shape, validate_indices)
    return _operate(_dense_members(set1), other, set_operation)


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
        _sparse_members(set1_indices, set1_values, set1_shape, validate_indices),
        _sparse_members(set2_indices, set2_values, set2_shape, validate_indices),
        set_operation,
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
    members = _sparse_members(set_indices, set_values, set_shape, validate_indices)
    indices, _, _ = _operate(members, members, b"union")
    sizes = np.zeros(members.outer, np.int32)
    np.add.at(sizes, tuple(indices[:, :-1].T), 1)
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
