"""Elements of a dataset, and how many of them become one.

An element is a tuple of components: arrays, or NumPy scalars and bytes where the rank is 0. A
`Row` stands for one without being one yet: rows of one table are gathered into a batch by a single
NumPy call, however they were shuffled on the way.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import aligned, errors
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape

Component = Any
Element = Any  # tuple[Component, ...] | Row


class Table:
    """Columns of one length: what rows are taken from. Never changed once it is made."""

    __slots__ = ("columns", "count")

    def __init__(self, columns: Sequence[Any]) -> None:
        self.columns = tuple(columns)
        self.count = len(self.columns[0])

    def rows(self, start: int, stop: int) -> list[Row]:
        """The rows from `start` to before `stop`."""
        return [Row(self, i) for i in range(start, stop)]


class Row:
    """An element that is a row of a table."""

    __slots__ = ("index", "table")

    def __init__(self, table: Table, index: int) -> None:
        self.table = table
        self.index = index


def components(element: Element) -> tuple[Component, ...]:
    """The components of an element."""
    if type(element) is Row:
        i = element.index
        return tuple(column[i] for column in element.table.columns)
    return element  # type: ignore[no-any-return]


def numpy_type(dtype: DType) -> Any:
    """The NumPy type of components: objects for strings and variants."""
    if dtype.name in ("string", "variant", "resource"):
        return object
    return dtype.as_numpy_dtype


def as_array(component: Component, kind: Any) -> np.ndarray[Any, Any]:
    """A component as an array of the NumPy type `kind`."""
    if type(component) is np.ndarray and component.dtype == kind:
        return component
    if kind is object and not isinstance(component, np.ndarray):
        boxed = np.empty((), object)
        boxed[()] = component
        return boxed
    return np.asarray(component, kind)


def arrays(element: Element, kinds: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The components of an element as arrays."""
    return [as_array(c, kind) for c, kind in zip(components(element), kinds, strict=True)]


def shape_of(component: Component) -> tuple[int, ...]:
    """The shape of a component."""
    return component.shape if isinstance(component, np.ndarray | np.generic) else ()


def size_text(shape: Sequence[int | None]) -> str:
    """A shape as TensorFlow's kernels write it."""
    return f"[{','.join('?' if size is None else str(size) for size in shape)}]"


def stacked(elements: list[Element], kinds: Sequence[Any]) -> tuple[Any, ...]:
    """One element whose components have a row for each of the elements.

    Raises:
      ValueError: The shapes of a component differ.
    """
    if set(map(type, elements)) == {Row}:
        runs = [
            (table, [row.index for row in rows])
            for table, rows in itertools.groupby(elements, _TABLE)
        ]
        if len(runs) == 1:
            return _gathered(*runs[0])
        if 4 * len(runs) <= len(elements) and _have_one_shape([table for table, _ in runs]):
            return _joined([_gathered(*run) for run in runs], len(elements))
    return tuple(
        _stacked_column(list(column), kind, i)
        for i, (column, kind) in enumerate(zip(_columns(elements), kinds, strict=True))
    )


_TABLE = operator.attrgetter("table")


def _have_one_shape(tables: list[Table]) -> bool:
    """Whether rows of all tables can stand in one."""
    kinds = {tuple((c.dtype, c.shape[1:]) for c in table.columns) for table in tables}
    return len(kinds) == 1 and not any(
        c.dtype == object and isinstance(c[0], np.ndarray) for t in tables for c in t.columns
    )


def _joined(parts: list[tuple[Any, ...]], count: int) -> tuple[Any, ...]:
    """Batches one behind the other."""
    whole = []
    for column in zip(*parts, strict=True):
        shape, dtype = (count, *column[0].shape[1:]), column[0].dtype
        batch = np.empty(shape, object) if dtype.kind == "O" else aligned.empty(shape, dtype)
        np.concatenate(column, out=batch)
        whole.append(batch)
    return tuple(whole)


def _columns(elements: list[Element]) -> Any:
    """The components of all elements, by component."""
    if Row in set(map(type, elements)):
        elements = [components(e) for e in elements]
    return zip(*elements, strict=True)


def _gathered(table: Table, indices: list[int]) -> tuple[Any, ...]:
    start, count = indices[0], len(indices)
    in_a_row = indices[-1] - start == count - 1 and indices == list(range(start, start + count))
    places: Any = slice(start, start + count) if in_a_row else np.array(indices)
    batches = []
    for i, column in enumerate(table.columns):
        if column.dtype == object:
            found = column[places]
            if found.ndim == 1 and isinstance(found[0], np.ndarray):  # rows of various lengths
                batches.append(_stacked_column(list(found), found[0].dtype, i))
            else:
                batches.append(found.copy())
        elif in_a_row:
            batches.append(_aligned_copy(column[places]))
        else:
            batch = aligned.empty((count, *column.shape[1:]), column.dtype)
            np.take(column, places, axis=0, out=batch, mode="clip")
            batches.append(batch)
    return tuple(batches)


def _aligned_copy(array: Any) -> Any:
    copy = aligned.empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _stacked_column(values: list[Component], kind: Any, position: int) -> Any:
    first = values[0]
    if kind is object and set(map(type, values)) == {bytes}:
        batch = np.empty(len(values), object)
        batch[:] = values
        return batch
    if not isinstance(first, np.ndarray) or first.ndim == 0:
        for i, value in enumerate(values):
            if isinstance(value, np.ndarray) and value.ndim:
                raise _shapes_differ(position, (), i, value.shape)
        if kind is object:
            batch = np.empty(len(values), object)
            batch[:] = [v[()] if isinstance(v, np.ndarray) else v for v in values]
            return batch
        return np.array(values, kind)
    shape = first.shape
    for i, value in enumerate(values):
        if shape_of(value) != shape:
            raise _shapes_differ(position, shape, i, shape_of(value))
    if kind is object:
        batch = np.empty((len(values), *shape), object)
    else:
        batch = aligned.empty((len(values), *shape), kind)
    if values:
        np.stack(values, out=batch)
    return batch


def _shapes_differ(
    position: int, first: Sequence[int], index: int, other: Sequence[int]
) -> ValueError:
    return ValueError(
        f"Cannot batch tensors with different shapes in component {position}. First element had "
        f"shape {size_text(first)} and element {index} had shape {size_text(other)}."
    )


def padded(
    elements: list[Element],
    kinds: Sequence[Any],
    shapes: Sequence[Sequence[int]],
    fills: Sequence[Any],
) -> tuple[Any, ...]:
    """As `stacked`, with components filled up to one shape.

    Args:
      elements: The elements.
      kinds: The NumPy types of the components.
      shapes: For each component its shape; -1 is the largest size among the elements.
      fills: For each component what it is filled up with.

    Raises:
      ValueError: A component has another rank.
      DataLossError: A component is larger than its shape.
    """
    return tuple(
        _padded_column(list(column), kind, shape, fill, i)
        for i, (column, kind, shape, fill) in enumerate(
            zip(_columns(elements), kinds, shapes, fills, strict=True)
        )
    )


def _padded_column(
    values: list[Component], kind: Any, shape: Sequence[int], fill: Any, position: int
) -> Any:
    sizes = list(shape)
    found = [shape_of(value) for value in values]
    for each in found:
        if len(each) != len(shape):
            raise ValueError(
                "All elements in a batch must have the same rank as the padded shape for component"
                f"{position}: expected rank {len(shape)} but got element with rank {len(each)}"
            )
    for axis, size in enumerate(shape):
        largest = max(each[axis] for each in found)
        if size == -1:
            sizes[axis] = largest
        elif largest > size:
            raise errors.DataLossError(
                None,
                None,
                f"Attempted to pad to a smaller size than the input element: component {position}, "
                f"axis {axis}, {largest} > {size}.",
            )
    if not sizes:
        return _stacked_column(values, kind, position)
    batch = (
        np.empty((len(values), *sizes), object)
        if kind is object
        else aligned.empty((len(values), *sizes), kind)
    )
    batch.fill(fill)
    if len(sizes) == 1:
        for row, value in zip(batch, values, strict=True):
            row[: len(value)] = value
    else:
        for row, value in zip(batch, values, strict=True):
            row[tuple(slice(size) for size in value.shape)] = value
    return batch


def matches(shape: Sequence[int], stated: TensorShape) -> bool:
    """Whether a shape is one of those that the stated shape allows."""
    sizes = stated.sizes
    return sizes is None or (
        len(sizes) == len(shape)
        and all(want is None or want == size for want, size in zip(sizes, shape, strict=True))
    )
