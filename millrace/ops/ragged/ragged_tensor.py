"""`tf.RaggedTensor`: rows of different lengths, as their values and where each row ends.

A ragged tensor holds ``values`` (a tensor, or a ragged tensor for further ragged dimensions) and
``row_splits``: row i is ``values[row_splits[i]:row_splits[i + 1]]``. All that is done to one is
done with ops on these tensors, so that gradients and sessions need to know nothing of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.core.tensor_spec import RaggedTensorSpec
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill, gather, join, select, sets, shape
from millrace.ops.array.cast import cast
from millrace.ops.math import arithmetic, comparison, cumulative, numeric, reduction, segment
from millrace.ops.ragged.kernels import RaggedTensorToSparse

__all__ = ["RaggedTensor"]


class RaggedTensorValue(NamedTuple):
    """What fetching a RaggedTensor gives, and what may be fed for one."""

    values: Any
    row_splits: Any

    @property
    def dtype(self) -> Any:
        """The NumPy type of the values."""
        return self.values.dtype

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        inner = self.values
        return inner.flat_values if isinstance(inner, RaggedTensorValue) else inner

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """The splits of all ragged dimensions, the outermost first."""
        inner = self.values.nested_row_splits if self.ragged_rank > 1 else ()
        return (self.row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are ragged."""
        inner = self.values
        return 1 + (inner.ragged_rank if isinstance(inner, RaggedTensorValue) else 0)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape, with None for ragged dimensions."""
        return (len(self.row_splits) - 1, None, *self.values.shape[1:])

    def to_list(self) -> list[Any]:
        """Nested lists of the rows."""
        inner = self.values
        values = inner.to_list() if isinstance(inner, RaggedTensorValue) else inner.tolist()
        ends = self.row_splits
        return [values[a:b] for a, b in itertools.pairwise(ends)]


class RaggedTensor:
    """A tensor with dimensions whose lengths differ from row to row."""

    __array_priority__ = 100

    def __init__(self, values: Any, row_splits: Any, internal: bool = False, **_: Any) -> None:
        """For the factories only."""
        if not internal:
            raise ValueError(
                "RaggedTensor constructor is private; please use one of the factory methods "
                "instead (e.g., RaggedTensor.from_row_lengths())"
            )
        if row_splits.dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError("Row partitioning tensors must be int32 or int64")
        row_splits.shape.assert_has_rank(1)
        self._values = values
        self._row_splits = row_splits

    # -- Factories -------------------------------------------------------------------------

    @classmethod
    def from_row_splits(
        cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows that end where the next ones begin: ``[0, …, number of values]``."""
        if isinstance(row_splits, list | tuple) and not row_splits:
            raise ValueError("row_splits tensor may not be empty.")
        with name_scope(name, "RaggedFromRowSplits", [values, row_splits]):
            values = _values(values)
            splits = _partition(row_splits, "row_splits", values)
            return cls(values, splits, internal=True)

    @classmethod
    def from_row_lengths(
        cls, values: Any, row_lengths: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows of the given lengths."""
        with name_scope(name, "RaggedFromRowLengths", [values, row_lengths]):
            values = _values(values)
            lengths = _partition(row_lengths, "row_lengths", values)
            splits = join.concat([[0], cumulative.cumsum(lengths)], axis=0)
            return cls(values, splits, internal=True)

    @classmethod
    def from_row_starts(
        cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows that begin at the given places."""
        with name_scope(name, "RaggedFromRowStarts", [values, row_starts]):
            values = _values(values)
            starts = _partition(row_starts, "row_starts", values)
            return cls(values, join.concat([starts, [_rows(values, starts.dtype)]], 0), True)

    @classmethod
    def from_row_limits(
        cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows that end at the given places."""
        with name_scope(name, "RaggedFromRowLimits", [values, row_limits]):
            values = _values(values)
            limits = _partition(row_limits, "row_limits", values)
            return cls(values, join.concat([[0], limits], axis=0), internal=True)

    @classmethod
    def from_value_rowids(
        cls,
        values: Any,
        value_rowids: Any,
        nrows: Any = None,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Values with the number of the row of each, in order."""
        with name_scope(name, "RaggedFromValueRowIds", [values, value_rowids, nrows]):
            values = _values(values)
            rowids = _partition(value_rowids, "value_rowids", values)
            return cls(values, segment_ids_to_row_splits(rowids, nrows), internal=True)

    @classmethod
    def from_nested_row_splits(
        cls,
        flat_values: Any,
        nested_row_splits: Any,
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Several ragged dimensions, the outermost first."""
        return cls._nested(cls.from_row_splits, flat_values, nested_row_splits, name)

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Any, name: str | None = None,
        validate: bool = True,
    ) -> Any:  # fmt: skip
        """Several ragged dimensions, the outermost first."""
        return cls._nested(cls.from_row_lengths, flat_values, nested_row_lengths, name)

    @classmethod
    def from_nested_value_rowids(
        cls, flat_values: Any, nested_value_rowids: Any, nested_nrows: Any = None,
        name: str | None = None, validate: bool = True,
    ) -> Any:  # fmt: skip
        """Several ragged dimensions, the outermost first."""
        if isinstance(nested_value_rowids, Tensor):
            raise TypeError("nested_value_rowids must be a list of Tensors")
        counts = nested_nrows or [None] * len(nested_value_rowids)
        if len(counts) != len(nested_value_rowids):
            raise ValueError("nested_nrows must have the same length as nested_value_rowids")
        with name_scope(name, "RaggedFromNestedValueRowIds"):
            made = flat_values
            for rowids, rows in zip(reversed(nested_value_rowids), reversed(counts), strict=True):
                made = cls.from_value_rowids(made, rowids, rows)
            return made

    @classmethod
    def _nested(cls, factory: Any, flat_values: Any, partitions: Any, name: str | None) -> Any:
        if isinstance(partitions, Tensor):
            raise TypeError("nested row partitions must be a list of Tensors")
        with name_scope(name, "RaggedFromNestedRowSplits"):
            made = flat_values
            for partition in reversed(list(partitions)):
                made = factory(made, partition)
            return made

    @classmethod
    def from_tensor(
        cls, tensor: Any, lengths: Any = None, padding: Any = None, ragged_rank: int = 1,
        name: str | None = None, row_splits_dtype: Any = dtypes.int64,
    ) -> Any:  # fmt: skip
        """A tensor whose rows end after `lengths`, or before trailing `padding`."""
        if lengths is not None and padding is not None:
            raise ValueError("Specify lengths or padding, but not both")
        if not isinstance(ragged_rank, int):
            raise TypeError(f"ragged_rank expected int, got {ragged_rank!r}")
        if ragged_rank <= 0:
            raise ValueError(f"ragged_rank must be greater than 0; got {ragged_rank}")
        kind = dtypes.as_dtype(row_splits_dtype)
        with name_scope(name, "RaggedFromTensor", [tensor, lengths, padding]):
            tensor = convert_to_tensor(tensor)
            tensor.shape.with_rank_at_least(ragged_rank + 1)
            whole = shape.shape(tensor, out_type=kind)
            if ragged_rank > 1:
                flat = shape.reshape(tensor, join.concat([[-1], whole[2:]], 0))
                inner = cls.from_tensor(
                    flat, lengths, padding, ragged_rank - 1, row_splits_dtype=kind
                )
                splits = numeric.range(0, whole[0] * whole[1] + 1, whole[1])
                return cls.from_row_splits(inner, splits)
            columns = numeric.range(whole[1])
            if lengths is not None:
                lengths = convert_to_tensor(lengths, dtype=kind)
            elif padding is not None:
                differs = comparison.not_equal(tensor, convert_to_tensor(padding, tensor.dtype))
                while (differs.shape.ndims or 2) > 2:
                    differs = reduction.reduce_any(differs, axis=-1)
                lengths = reduction.reduce_max(cast(differs, kind) * (columns + 1), axis=1)
                lengths = arithmetic.maximum(lengths, convert_to_tensor(0, kind))
            else:
                flat = shape.reshape(tensor, join.concat([[-1], whole[2:]], 0))
                known = tensor.shape
                if known[0].value is not None and known[1].value is not None:
                    flat.set_shape(
                        TensorShape([known[0].value * known[1].value]).concatenate(known[2:])
                    )
                splits = numeric.range(0, whole[0] * whole[1] + 1, whole[1])
                return cls.from_row_splits(flat, splits)
            limits = arithmetic.minimum(lengths, whole[1])
            mask = comparison.less(shape.expand_dims(columns, 0), shape.expand_dims(limits, 1))
            return cls.from_row_lengths(select.boolean_mask(tensor, mask), limits)

    @classmethod
    def from_sparse(
        cls, st_input: Any, name: str | None = None, row_splits_dtype: Any = dtypes.int64
    ) -> RaggedTensor:
        """A sparse matrix whose rows are filled from the left."""
        if not isinstance(st_input, SparseTensor):
            raise TypeError("Expected SparseTensor, got " + type(st_input).__name__)
        kind = dtypes.as_dtype(row_splits_dtype)
        with name_scope(name, "RaggedFromSparse"):
            rank = st_input.dense_shape.shape[0].value
            if rank not in (None, 2):
                raise ValueError(f"rank(st_input) must be 2, got {rank}")
            rowids = cast(st_input.indices[:, 0], kind)
            rows = cast(st_input.dense_shape[0], kind)
            return cls.from_value_rowids(st_input.values, rowids, rows)

    # -- What it is ------------------------------------------------------------------------

    @property
    def values(self) -> Any:
        """The rows, one after the other: a tensor, or a ragged tensor."""
        return self._values

    @property
    def row_splits(self) -> Tensor:
        """Where rows begin, and the end of the last."""
        return self._row_splits

    @property
    def flat_values(self) -> Tensor:
        """The innermost values."""
        inner = self._values
        return inner.flat_values if isinstance(inner, RaggedTensor) else inner

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        """The splits of all ragged dimensions, the outermost first."""
        inner = self._values
        deeper = inner.nested_row_splits if isinstance(inner, RaggedTensor) else ()
        return (self._row_splits, *deeper)

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are ragged."""
        return len(self.nested_row_splits)

    @property
    def dtype(self) -> dtypes.DType:
        """The type of the values."""
        return self.flat_values.dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape, with None for ragged dimensions."""
        ends = self._row_splits.shape[0].value
        rows = None if ends is None else ends - 1
        return TensorShape([rows, None]).concatenate(self._values.shape[1:])

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self.shape

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._row_splits.graph

    @property
    def name(self) -> str:
        """The name of the innermost values."""
        return self.flat_values.name

    @property
    def op(self) -> Operation:
        """The operation that makes the innermost values."""
        return self.flat_values.op

    @property
    def _own_spec(self) -> RaggedTensorSpec:
        return RaggedTensorSpec(self.shape, self.dtype, self.ragged_rank, self._row_splits.dtype)

    def consumers(self) -> list[Operation]:
        """The operations that read one of its tensors."""
        tensors = [self.flat_values, *self.nested_row_splits]
        return list(dict.fromkeys(op for each in tensors for op in each.consumers()))

    def nrows(self, out_type: Any = None, name: str | None = None) -> Tensor:
        """How many rows there are."""
        kind = dtypes.as_dtype(out_type) if out_type is not None else self._row_splits.dtype
        with name_scope(name, "RaggedNRows"):
            return shape.shape(self._row_splits, out_type=kind)[0] - 1

    def row_starts(self, name: str | None = None) -> Tensor:
        """Where each row begins."""
        with name_scope(name, "RaggedRowStarts"):
            return self._row_splits[:-1]

    def row_limits(self, name: str | None = None) -> Tensor:
        """Where each row ends."""
        with name_scope(name, "RaggedRowLimits"):
            return self._row_splits[1:]

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """The lengths of the rows of a dimension."""
        if axis == 0:
            return self.nrows()
        with name_scope(name, "RaggedRowLengths"):
            if axis == 1:
                return self._row_splits[1:] - self._row_splits[:-1]
            if isinstance(self._values, RaggedTensor):
                return self.with_values(self._values.row_lengths(axis - 1))
            whole = shape.shape(self._values, out_type=self._row_splits.dtype)
            each = fill.ones(whole[: axis - 1], self._row_splits.dtype) * whole[axis - 1]
            return self.with_values(each)

    def nested_row_lengths(self, name: str | None = None) -> tuple[Tensor, ...]:
        """The lengths of all ragged dimensions, the outermost first."""
        with name_scope(name, "RaggedNestedRowLengths"):
            return tuple(each[1:] - each[:-1] for each in self.nested_row_splits)

    def value_rowids(self, name: str | None = None) -> Tensor:
        """The number of the row of each value."""
        with name_scope(name, "RaggedValueRowIds"):
            return row_splits_to_segment_ids(self._row_splits)

    def nested_value_rowids(self, name: str | None = None) -> tuple[Tensor, ...]:
        """`value_rowids` of all ragged dimensions, the outermost first."""
        with name_scope(name, "RaggedNestedValueRowIds"):
            return tuple(row_splits_to_segment_ids(each) for each in self.nested_row_splits)

    def bounding_shape(
        self, axis: Any = None, name: str | None = None, out_type: Any = None
    ) -> Tensor:
        """The smallest shape of a tensor that holds all rows."""
        kind = dtypes.as_dtype(out_type) if out_type is not None else self._row_splits.dtype
        with name_scope(name, "RaggedBoundingBox"):
            longest = [
                arithmetic.maximum(reduction.reduce_max(each), convert_to_tensor(0, each.dtype))
                for each in self.nested_row_lengths()
            ]
            inner = shape.shape(self.flat_values, out_type=self._row_splits.dtype)[1:]
            found = join.concat([join.stack([self.nrows(), *longest]), inner], axis=0)
            found = cast(found, kind)
            return found if axis is None else gather.gather(found, axis)

    # -- Others like it --------------------------------------------------------------------

    def with_values(self, new_values: Any) -> RaggedTensor:
        """The same rows of other values."""
        new_values = _values(new_values)
        return RaggedTensor(new_values, self._row_splits, internal=True)

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """The same rows of other innermost values."""
        inner = self._values
        if isinstance(inner, RaggedTensor):
            return self.with_values(inner.with_flat_values(new_values))
        return self.with_values(new_values)

    def with_row_splits_dtype(self, dtype: Any) -> RaggedTensor:
        """The same with splits of another type."""
        kind = dtypes.as_dtype(dtype)
        if kind not in (dtypes.int32, dtypes.int64):
            raise ValueError("dtype must be int32 or int64")
        inner = self._values
        if isinstance(inner, RaggedTensor):
            inner = inner.with_row_splits_dtype(kind)
        return RaggedTensor(inner, cast(self._row_splits, kind), internal=True)

    def to_tensor(self, default_value: Any = None, name: str | None = None) -> Tensor:
        """A tensor of the bounding shape, filled up with `default_value`."""
        with name_scope(name, "RaggedToTensor"):
            inner = self._values
            if isinstance(inner, RaggedTensor):
                inner = inner.to_tensor(default_value)
            if default_value is None:
                text = self.dtype == dtypes.string
                filler = convert_to_tensor("" if text else np.zeros([], self.dtype.as_numpy_dtype))
            else:
                filler = convert_to_tensor(default_value, dtype=self.dtype)
            kind = self._row_splits.dtype
            tail = shape.shape(inner)[1:]
            row = shape.expand_dims(shape.broadcast_to(filler, tail), 0)
            extended = join.concat([inner, row], axis=0)
            lengths = self.row_lengths()
            longest = arithmetic.maximum(reduction.reduce_max(lengths), convert_to_tensor(0, kind))
            columns = shape.expand_dims(numeric.range(longest), 0)
            there = comparison.less(columns, shape.expand_dims(lengths, 1))
            places = shape.expand_dims(self.row_starts(), 1) + columns
            beyond = fill.zeros_like(places) + _rows(inner, kind)
            made = gather.gather(extended, select.where(there, places, beyond))
            made.set_shape(TensorShape([self.shape[0], None]).concatenate(inner.shape[1:]))
            return made

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """A SparseTensor of the same elements."""
        with name_scope(name, "RaggedToSparse"):
            indices, values, whole = RaggedTensorToSparse(
                list(self.nested_row_splits), self.flat_values
            )
            indices.set_shape([None, self.shape.ndims])
            whole.set_shape([self.shape.ndims])
            return SparseTensor(indices, values, whole)

    def eval(self, feed_dict: Any = None, session: Any = None) -> RaggedTensorValue:
        """Evaluates in `session` or the default session."""
        values = self._values.eval(feed_dict, session)
        return RaggedTensorValue(values, self._row_splits.eval(feed_dict, session))

    def __repr__(self) -> str:
        return f"tf.RaggedTensor(values={self._values}, row_splits={self._row_splits})"

    #: ``ragged[key]``; set by `indexing`, which is made of what is here.
    __getitem__: Callable[[RaggedTensor, Any], Any]

    def __len__(self) -> int:
        raise TypeError("object of type 'RaggedTensor' has no len()")

    def __bool__(self) -> bool:
        raise TypeError("RaggedTensor may not be used as a boolean.")

    __nonzero__ = __bool__


def _values(values: Any) -> Any:
    if isinstance(values, RaggedTensor):
        return values
    if isinstance(values, RaggedTensorValue):
        return RaggedTensor.from_row_splits(values.values, values.row_splits)
    made = convert_to_tensor(values, name="values")
    made.shape.with_rank_at_least(1)
    return made


def _partition(partition: Any, name: str, values: Any) -> Tensor:
    """Row partitions as a vector of int64, or of what type they have."""
    if not isinstance(partition, Tensor):
        array = np.asarray(partition)
        kind = dtypes.int32 if array.dtype == np.int32 else dtypes.int64
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"{name} must have dtype int32 or int64, got {array.dtype}")
        partition = convert_to_tensor(array.astype(kind.as_numpy_dtype), name=name)
    if partition.dtype not in (dtypes.int32, dtypes.int64):
        raise ValueError(f"{name} must have dtype int32 or int64, got {partition.dtype.name}")
    partition.shape.assert_has_rank(1)
    return partition


def _rows(values: Any, kind: Any) -> Tensor:
    if isinstance(values, RaggedTensor):
        return cast(values.nrows(), kind)
    return shape.shape(values, out_type=kind)[0]


def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: Any = None, out_type: Any = None, name: str | None = None
) -> Tensor:
    """From ``[0, 0, 0, 2, 2]`` to ``[0, 3, 3, 5]``."""
    with name_scope(name, "SegmentIdsToRaggedSplits", [segment_ids]):
        ids = convert_to_tensor(segment_ids)
        kind = dtypes.as_dtype(out_type) if out_type is not None else ids.dtype
        ids = cast(ids, kind)
        if num_segments is None:
            last = reduction.reduce_max(join.concat([[-1], ids], axis=0))
            count: Any = last + 1
        else:
            count = convert_to_tensor(num_segments, dtype=kind)
        lengths = segment.unsorted_segment_sum(fill.ones_like(ids), ids, count)
        splits = join.concat([[0], cumulative.cumsum(lengths)], axis=0)
        if isinstance(num_segments, int):
            splits.set_shape([num_segments + 1])
        return splits


def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """From ``[0, 3, 3, 5]`` to ``[0, 0, 0, 2, 2]``."""
    with name_scope(name, "RaggedSplitsToSegmentIds", [splits]):
        ends = convert_to_tensor(splits)
        if ends.dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError("splits must have dtype int32 or int64")
        ends.shape.assert_has_rank(1)
        kind = dtypes.as_dtype(out_type) if out_type is not None else ends.dtype
        found = sets.searchsorted(ends, numeric.range(ends[-1]), side="right", out_type=kind)
        return found - 1


def is_ragged(value: Any) -> bool:
    """Whether it is a RaggedTensor, or the value of one."""
    return isinstance(value, RaggedTensor | RaggedTensorValue)


def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function on the innermost values; the rows stay.

    Args:
      op: From tensors to a tensor of the same first dimension.
      *args: Its arguments; ragged ones, all of the same rows, become their innermost values.
      **kwargs: More of them.
    """
    found = [_values(each) for each in _ragged_leaves([*args, *kwargs.values()])]
    if not found:
        return op(*args, **kwargs)
    first = found[0]
    if any(each.ragged_rank != first.ragged_rank for each in found):
        raise ValueError("Inputs must have identical ragged splits")
    return first.with_flat_values(op(*_unwrapped(args), **{k: _flat(v) for k, v in kwargs.items()}))


def _ragged_leaves(args: Sequence[Any]) -> list[Any]:
    found = []
    for each in args:
        if is_ragged(each):
            found.append(each)
        elif isinstance(each, list | tuple):
            found.extend(_ragged_leaves(each))
    return found


def _flat(arg: Any) -> Any:
    if is_ragged(arg):
        return arg.flat_values
    return _unwrapped(arg) if isinstance(arg, list | tuple) else arg


def _unwrapped(args: Any) -> Any:
    return type(args)([_flat(each) for each in args])
