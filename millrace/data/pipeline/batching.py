"""Datasets that put elements together, or take them apart: batches, windows, rows of batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.data.pipeline.dataset import (
    Context,
    Dataset,
    EndOfSequence,
    PullIterator,
    State,
    Transformation,
    TransformingIterator,
    restored_elements,
    saved_elements,
)
from millrace.data.pipeline.element import (
    Element,
    Table,
    arrays,
    components,
    padded,
    size_text,
    stacked,
)
from millrace.data.pipeline.sources import Elements

#: Makes one element of several.
Join = Callable[[list[Element]], Element]


class Batch(Transformation):
    """`size` elements as one; fewer at the end, unless `drop_remainder`."""

    def __init__(
        self,
        source: Dataset,
        size: int,
        drop_remainder: bool,
        types: Any,
        shapes: Any,
        join: Join | None = None,
    ) -> None:
        super().__init__(source, types, shapes)
        if size <= 0:
            raise ValueError("Batch size must be greater than zero.")
        self.size, self.drop_remainder = size, drop_remainder
        kinds = source.kinds
        self.join: Join = join or (lambda elements: stacked(elements, kinds))

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _BatchIterator(self, context)

    def cardinality(self) -> int:
        """So many times fewer."""
        there = self.source.cardinality()
        if there < 0:
            return there
        return there // self.size if self.drop_remainder else -(-there // self.size)


def padded_batch(
    source: Dataset,
    size: int,
    drop_remainder: bool,
    shapes: Sequence[Sequence[int]],
    fills: Sequence[Any],
    types: Any,
    output_shapes: Any,
) -> Batch:
    """Batches whose components are filled up to one shape; see `element.padded`."""
    for shape in shapes:
        if any(size < -1 for size in shape):
            raise ValueError(
                f"Demanded padded_shapes' dimensions to be >= -1 but got {size_text(shape)}"
            )
    kinds = source.kinds
    return Batch(
        source,
        size,
        drop_remainder,
        types,
        output_shapes,
        lambda elements: padded(elements, kinds, shapes, fills),
    )


class _BatchIterator(TransformingIterator):
    def __init__(self, dataset: Batch, context: Context) -> None:
        super().__init__(dataset, context)
        self._size, self._join = dataset.size, dataset.join
        self._drop_remainder = dataset.drop_remainder

    def next(self) -> Element:
        # An error takes the elements of the batch that were there with it, as in TensorFlow.
        size, source = self._size, self.source
        elements = source.take(size)
        while 0 < len(elements) < size:
            more = source.take(size - len(elements))
            if not more:
                break
            elements += more
        if not elements or (self._drop_remainder and len(elements) < size):
            raise EndOfSequence
        return self._join(elements)


class SparseBatch(Transformation):
    """Batches of vectors (or more dimensions) of various sizes as sparse tensors."""

    def __init__(
        self, source: Dataset, size: int, row_shape: Sequence[int], types: Any, shapes: Any
    ) -> None:
        super().__init__(source, types, shapes)
        if size <= 0:
            raise ValueError("Batch size must be greater than zero.")
        self.size, self.row_shape = size, list(row_shape)

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _SparseBatchIterator(self, context)


class _SparseBatchIterator(TransformingIterator):
    def __init__(self, dataset: SparseBatch, context: Context) -> None:
        super().__init__(dataset, context)
        self._dataset = dataset
        self._kind = dataset.source.kinds

    def next(self) -> Element:
        elements: list[Element] = []
        while len(elements) < self._dataset.size:
            more = self.source.take(self._dataset.size - len(elements))
            if not more:
                break
            elements += more
        if not elements:
            raise EndOfSequence
        rows = [arrays(element, self._kind)[0] for element in elements]
        sizes = list(self._dataset.row_shape)
        for row in rows:
            if row.ndim != len(sizes):
                raise ValueError(
                    f"Input element had shape {size_text(row.shape)}, which is incompatible with "
                    f"the row_shape {size_text([s if s >= 0 else None for s in sizes])}"
                )
        for axis, size in enumerate(sizes):
            largest = max(row.shape[axis] for row in rows)
            if size < 0:
                sizes[axis] = largest
            elif largest > size:
                raise errors.DataLossError(
                    None,
                    None,
                    f"Input element had size {largest} in dimension {axis}, which is larger than "
                    f"the row_shape's {size}",
                )
        indices = [
            np.column_stack([np.full(row.size, i), np.indices(row.shape).reshape(row.ndim, -1).T])
            for i, row in enumerate(rows)
        ]
        values = np.concatenate([row.ravel() for row in rows])
        parts = np.concatenate(indices).astype(np.int64), values, np.array([len(rows), *sizes])
        serialized = np.empty(3, object)
        serialized[:] = parts
        return (serialized,)


class Unbatch(Transformation):
    """The rows of the elements."""

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _UnbatchIterator(self, context)


class _UnbatchIterator(TransformingIterator):
    """Invariant: rows from `_position` on of `_table` are still to come."""

    def __init__(self, dataset: Unbatch, context: Context) -> None:
        super().__init__(dataset, context)
        self._kinds = dataset.source.kinds
        self._table: Table | None = None
        self._position = 0

    def take(self, count: int) -> list[Element]:
        while self._table is None or self._position >= self._table.count:
            found = self.source.take(1)
            if not found:
                self._table = None
                return []
            columns = arrays(found[0], self._kinds)
            for column in columns:
                if column.ndim == 0:
                    raise ValueError(
                        "Input element must have a non-scalar value in each component."
                    )
                if len(column) != len(columns[0]):
                    raise ValueError(
                        "Input element must have the same batch size in each component. Component "
                        f"0 had size {len(columns[0])} but another had size {len(column)}."
                    )
            self._table, self._position = Table(columns), 0
        start = self._position
        self._position = stop = min(start + count, self._table.count)
        return self._table.rows(start, stop)

    def save(self) -> State:
        left = None
        if self._table is not None:
            left = [column[self._position :] for column in self._table.columns]
        return {**super().save(), "left": left}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._table = None if state["left"] is None else Table(state["left"])
        self._position = 0


class Window(Transformation):
    """Datasets of up to `size` elements each, one beginning `shift` elements after another.

    Args:
      source: Where elements come from.
      size: How many elements a window has.
      shift: How far the next window begins behind.
      stride: How far elements of a window are apart.
      drop_remainder: Whether windows with fewer elements are left out.
      types: Variants, one for each component.
      shapes: Scalars.
      wraps: Makes the value of a component of one window.
    """

    def __init__(
        self,
        source: Dataset,
        size: int,
        shift: int,
        stride: int,
        drop_remainder: bool,
        types: Any,
        shapes: Any,
    ) -> None:
        super().__init__(source, types, shapes)
        for name, value in (("size", size), ("shift", shift), ("stride", stride)):
            if value <= 0:
                raise ValueError(f"Window {name} must be greater than zero.")
        self.size, self.shift, self.stride = size, shift, stride
        self.drop_remainder = drop_remainder

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _WindowIterator(self, context)

    def of(self, elements: list[Element]) -> Element:
        """The windows over each component."""
        source = self.source
        columns = zip(*[components(element) for element in elements], strict=True)
        return tuple(
            Elements([(value,) for value in column], [dtype], [shape])
            for column, dtype, shape in zip(columns, source.types, source.shapes, strict=True)
        )


class _WindowIterator(TransformingIterator):
    """Invariant: `_buffer` begins with the next window; `_skip` elements come before it."""

    def __init__(self, dataset: Window, context: Context) -> None:
        super().__init__(dataset, context)
        self._dataset = dataset
        self._buffer: list[Element] = []
        self._skip = 0
        self._is_over = False

    def next(self) -> Element:
        dataset = self._dataset
        span = (dataset.size - 1) * dataset.stride + 1
        while self._skip and not self._is_over:
            skipped = len(self.source.take(self._skip))
            self._skip -= skipped
            self._is_over = not skipped
        while len(self._buffer) < span and not self._is_over:
            found = self.source.take(span - len(self._buffer))
            self._buffer += found
            self._is_over = not found
        whole = len(self._buffer) >= span
        if not self._buffer or (dataset.drop_remainder and not whole):
            raise EndOfSequence
        window = self._buffer[: span : dataset.stride]
        self._skip = max(dataset.shift - len(self._buffer), 0)
        del self._buffer[: dataset.shift]
        return dataset.of(window)

    def save(self) -> State:
        return {
            **super().save(),
            "buffer": saved_elements(self._buffer),
            "skip": self._skip,
            "is_over": self._is_over,
        }

    def restore(self, state: State) -> None:
        super().restore(state)
        self._buffer = restored_elements(state["buffer"])
        self._skip, self._is_over = int(state["skip"]), bool(state["is_over"])
