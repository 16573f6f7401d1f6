"""Datasets of what is in memory: tensors, their slices, ranges, random numbers; and generators."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.dtypes import DType
from millrace.core.philox_words import PhiloxStream
from millrace.core.tensor_shape import TensorShape
from millrace.data.pipeline.dataset import (
    INFINITE,
    Call,
    Context,
    Dataset,
    EndOfSequence,
    PullIterator,
    State,
)
from millrace.data.pipeline.element import Element, Table


class Tensors(Dataset):
    """One element: the tensors."""

    def __init__(
        self, values: Sequence[Any], types: Sequence[DType], shapes: Sequence[TensorShape]
    ) -> None:
        super().__init__(types, shapes)
        self.values = tuple(values)

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _ListIterator([self.values], context)

    def cardinality(self) -> int:
        """One."""
        return 1

    @property
    def is_quick(self) -> bool:
        """Yes."""
        return True


class TensorSlices(Dataset):
    """An element for each row of the tensors."""

    def __init__(
        self, values: Sequence[Any], types: Sequence[DType], shapes: Sequence[TensorShape]
    ) -> None:
        super().__init__(types, shapes)
        for i, value in enumerate(values):
            if value.ndim == 0:
                raise ValueError("All components must be at least 1-dimensional")
            if len(value) != len(values[0]):
                raise ValueError(
                    "All components must have the same size in the 0th dimension: component 0 has "
                    f"{len(values[0])}, component {i} has {len(value)}"
                )
        self.table = Table(values)

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _TableIterator(self.table, context)

    def cardinality(self) -> int:
        """The number of rows."""
        return self.table.count

    @property
    def is_quick(self) -> bool:
        """Yes."""
        return True


class SparseSlices(Dataset):
    """An element for each row of a sparse tensor, as three tensors."""

    def __init__(
        self,
        indices: Any,
        values: Any,
        dense_shape: Any,
        types: Sequence[DType],
        shapes: Sequence[TensorShape],
    ) -> None:
        super().__init__(types, shapes)
        rows = indices[:, 0] if len(indices) else np.zeros(0, np.int64)
        if np.any(np.diff(rows) < 0):
            raise errors.UnimplementedError(
                None, None, "The SparseTensor must be ordered in the batch dimension"
            )
        count = int(dense_shape[0])
        bounds = np.searchsorted(rows, np.arange(count + 1))
        rest = np.asarray(dense_shape[1:], np.int64)
        self._elements = [
            (indices[a:b, 1:], values[a:b], rest) for a, b in itertools.pairwise(bounds)
        ]

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _ListIterator(self._elements, context)

    def cardinality(self) -> int:
        """The number of rows."""
        return len(self._elements)

    @property
    def is_quick(self) -> bool:
        """Yes."""
        return True


class Elements(Dataset):
    """Elements that are there: windows, groups, lists."""

    def __init__(
        self, elements: list[Element], types: Sequence[DType], shapes: Sequence[TensorShape]
    ) -> None:
        super().__init__(types, shapes)
        self.elements = elements

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _ListIterator(self.elements, context)

    def cardinality(self) -> int:
        """Their number."""
        return len(self.elements)

    @property
    def is_quick(self) -> bool:
        """Yes."""
        return True


class _ListIterator(PullIterator):
    def __init__(self, elements: Sequence[Element], context: Context) -> None:
        super().__init__(context)
        self._elements = elements
        self._position = 0

    def take(self, count: int) -> list[Element]:
        start = self._position
        found = list(self._elements[start : start + count])
        self._position = start + len(found)
        return found

    def save(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self._position = int(state["position"])


class _TableIterator(PullIterator):
    def __init__(self, table: Table, context: Context) -> None:
        super().__init__(context)
        self._table = table
        self._position = 0

    def take(self, count: int) -> list[Element]:
        start = self._position
        self._position = stop = min(start + count, self._table.count)
        return self._table.rows(start, stop)

    def save(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self._position = int(state["position"])


class Range(Dataset):
    """The numbers from `start` to before `stop`."""

    def __init__(self, numbers: range, types: Sequence[DType], shapes: Sequence[TensorShape]):
        super().__init__(types, shapes)
        self.numbers = numbers

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _RangeIterator(self, context)

    def cardinality(self) -> int:
        """How many numbers there are."""
        return len(self.numbers)

    @property
    def is_quick(self) -> bool:
        """Yes."""
        return True


class _RangeIterator(PullIterator):
    def __init__(self, dataset: Range, context: Context) -> None:
        super().__init__(context)
        self._numbers = dataset.numbers
        self._kind = dataset.types[0].as_numpy_dtype
        self._position = 0

    def take(self, count: int) -> list[Element]:
        start = self._position
        numbers = self._numbers[start : start + count]
        self._position = start + len(numbers)
        values = np.arange(numbers.start, numbers.stop, numbers.step).astype(self._kind)
        return [(value,) for value in values]

    def save(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self._position = int(state["position"])


class Seeds:
    """Seeds for one iterator after the other, as TensorFlow's generators of seeds give them.

    Args:
      seed: The first seed; both 0 means: others each time.
      seed2: The second one.
      reshuffles: Whether each iterator gets seeds of its own.
    """

    def __init__(self, seed: int, seed2: int, reshuffles: bool) -> None:
        if not seed and not seed2:
            seed, seed2 = secrets.randbits(63), secrets.randbits(63)
        self._fixed = seed, seed2
        self._stream = PhiloxStream(seed, seed2) if reshuffles else None

    def draw(self) -> tuple[int, int]:
        """The seeds of the next iterator."""
        if self._stream is None:
            return self._fixed
        return self._stream.next(), self._stream.next()

    def save(self) -> list[int]:
        """What `restore` needs to go on from here."""
        return [*self._fixed, -1 if self._stream is None else self._stream.drawn]

    def restore(self, state: Sequence[int]) -> None:
        """Goes on where `save` was called."""
        seed, seed2, drawn = (int(number) for number in state)
        self._fixed = seed, seed2
        self._stream = None if drawn < 0 else PhiloxStream(seed, seed2, drawn)


class Random(Dataset):
    """Random whole numbers, without an end."""

    def __init__(
        self,
        seed: int,
        seed2: int,
        types: Sequence[DType],
        shapes: Sequence[TensorShape],
        rerandomizes: bool = False,
    ) -> None:
        super().__init__(types, shapes)
        self._seeds = Seeds(seed, seed2, rerandomizes)

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _RandomIterator(self._seeds.draw(), context)

    def cardinality(self) -> int:
        """No end."""
        return INFINITE

    @property
    def is_quick(self) -> bool:
        """Yes."""
        return True


class _RandomIterator(PullIterator):
    def __init__(self, seeds: tuple[int, int], context: Context) -> None:
        super().__init__(context)
        self._seeds = seeds
        self._stream = PhiloxStream(*seeds)

    def next(self) -> Element:
        return (np.int64(self._stream.next()),)

    def save(self) -> State:
        return {"seeds": list(self._seeds), "drawn": self._stream.drawn}

    def restore(self, state: State) -> None:
        self._seeds = int(state["seeds"][0]), int(state["seeds"][1])
        self._stream = PhiloxStream(*self._seeds, drawn=int(state["drawn"]))


class Generator(Dataset):
    """Elements that a function makes one after the other, from a state that another made.

    The end is an OutOfRangeError of the function. `finalize` is called once, at the end, or when
    nobody wants more.
    """

    def __init__(
        self,
        init: Call,
        following: Call,
        finalize: Call,
        types: Sequence[DType],
        shapes: Sequence[TensorShape],
    ) -> None:
        super().__init__(types, shapes)
        self.init, self.following, self.finalize = init, following, finalize

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _GeneratorIterator(self, context)


class _GeneratorIterator(PullIterator):
    def __init__(self, dataset: Generator, context: Context) -> None:
        super().__init__(context)
        self._dataset = dataset
        self._state: list[Any] | None = None
        self._is_over = False
        self._count = 0
        context.on_close(self._finalize)

    def next(self) -> Element:
        if self._is_over:
            raise EndOfSequence
        if self._state is None:
            self._state = self._dataset.init([])
        try:
            element = self._dataset.following(self._state)
        except errors.OutOfRangeError:
            self.close()
            raise EndOfSequence from None
        self._count += 1
        return tuple(element)

    def close(self) -> None:
        self.context.forget(self._finalize)
        self._finalize()

    def _finalize(self) -> None:
        if not self._is_over:
            self._is_over = True
            if self._state is not None:
                self._dataset.finalize(self._state)

    def save(self) -> State:
        return {"count": self._count, "is_over": self._is_over}

    def restore(self, state: State) -> None:
        # What a generator holds cannot be saved: it is started again and left to run to there.
        self._finalize()
        self._state, self._is_over, self._count = None, False, 0
        for _ in range(int(state["count"])):
            self.next()
        if state["is_over"]:
            self.close()
