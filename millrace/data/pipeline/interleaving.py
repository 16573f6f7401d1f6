"""Datasets whose elements become datasets: one after the other, by turns, as a selector says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace.data.pipeline.dataset import (
    INFINITE,
    UNKNOWN,
    Call,
    Context,
    Dataset,
    EndOfSequence,
    PullIterator,
    State,
    Transformation,
    TransformingIterator,
)
from millrace.data.pipeline.element import Element, arrays, components
from millrace.data.pipeline.mapping import AUTOMATIC_CALLS, caller
from millrace.data.pipeline.workers import PrefetchIterator


def dataset_in(result: Element) -> Dataset:
    """The dataset that a function has returned."""
    value = result[0]
    found = value[()] if hasattr(value, "dtype") and value.ndim == 0 else value
    if not isinstance(found, Dataset):
        raise ValueError("`f` must return a Dataset object.")
    return found


class Interleave(Transformation):
    """Elements of the datasets that a function makes of elements, by turns.

    `flat_map` is the case of one dataset at a time.

    Args:
      source: Where the function's elements come from.
      call: The function, to one dataset.
      cycle_length: How many datasets are open at a time.
      block_length: How many elements one gives in its turn.
      parallel: How many elements of each open dataset are made ahead, in a thread of each; 0 for
        no threads.
      ordered: Whether turns are kept although a dataset's next element is not there yet.
    """

    def __init__(
        self,
        source: Dataset,
        call: Call,
        types: Any,
        shapes: Any,
        cycle_length: int = 1,
        block_length: int = 1,
        parallel: int = 0,
        ordered: bool = True,
    ) -> None:
        super().__init__(source, types, shapes)
        if cycle_length == -1:
            cycle_length = AUTOMATIC_CALLS
        if cycle_length <= 0:
            raise ValueError("cycle_length must be greater than zero.")
        if block_length <= 0:
            raise ValueError("block_length must be greater than zero.")
        self.apply: Callable[[Element], Element] = caller(call, source.kinds)
        self.cycle_length, self.block_length = cycle_length, block_length
        self.parallel, self.ordered = parallel, ordered

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _InterleaveIterator(self, context)

    @property
    def is_quick(self) -> bool:
        """Nobody knows what a function does."""
        return False


class _InterleaveIterator(TransformingIterator):
    """Invariant: `_open[i]` is None or (the element it came of, its iterator)."""

    def __init__(self, dataset: Interleave, context: Context) -> None:
        super().__init__(dataset, context)
        self._dataset = dataset
        self._open: list[tuple[Element, PullIterator] | None] = [None] * dataset.cycle_length
        self._turn = 0
        self._given = 0
        self._is_over = False

    def take(self, count: int) -> list[Element]:
        dataset = self._dataset
        while True:
            place = self._turn if dataset.ordered else self._ready_turn()
            current = self._open[place]
            if current is None:
                if self._is_over:
                    if all(each is None for each in self._open):
                        return []
                    self._next_turn()
                    continue
                try:
                    element = self.source.next()
                except EndOfSequence:
                    self._is_over = True
                    continue
                current = self._open[place] = element, self._opened(element)
                self._open_ahead()
            if dataset.cycle_length > 1 or dataset.block_length > 1:
                count = min(count, dataset.block_length - self._given)
            if dataset.cycle_length == 1:
                self._given = 0
            found = current[1].take(count)
            if not found:
                current[1].close()
                self._open[place] = None
                self._next_turn()
                continue
            self._given += len(found)
            if self._given >= dataset.block_length:
                self._next_turn()
            return found

    def _opened(self, element: Element) -> PullIterator:
        iterator = dataset_in(self._dataset.apply(element)).iterator(self.context)
        if self._dataset.parallel:
            return PrefetchIterator(iterator, self._dataset.parallel, self.context)
        return iterator

    def _open_ahead(self) -> None:
        """Starts the threads of what is open and has not had its turn yet."""
        if self._dataset.parallel:
            for each in self._open:
                if each is not None and isinstance(each[1], PrefetchIterator):
                    each[1].start()

    def _ready_turn(self) -> int:
        """The next dataset in turn that has an element; or the one whose turn it is."""
        if self._given:
            return self._turn
        count = len(self._open)
        for i in range(count):
            each = self._open[(self._turn + i) % count]
            if each is None and not self._is_over:
                self._turn = (self._turn + i) % count
                break
            if each is not None and isinstance(each[1], PrefetchIterator) and each[1].is_ready:
                self._turn = (self._turn + i) % count
                break
        return self._turn

    def _next_turn(self) -> None:
        self._turn = (self._turn + 1) % len(self._open)
        self._given = 0

    def close(self) -> None:
        for each in self._open:
            if each is not None:
                each[1].close()
        super().close()

    def save(self) -> State:
        return {
            **super().save(),
            "open": [
                None if each is None else [list(components(each[0])), each[1].save()]
                for each in self._open
            ],
            "turn": self._turn,
            "given": self._given,
            "is_over": self._is_over,
        }

    def restore(self, state: State) -> None:
        for each in self._open:
            if each is not None:
                each[1].close()
        super().restore(state)
        self._turn, self._given = int(state["turn"]), int(state["given"])
        self._is_over = bool(state["is_over"])
        self._open = []
        for saved in state["open"]:
            if saved is None:
                self._open.append(None)
                continue
            element = tuple(saved[0])
            iterator = self._opened(element)
            iterator.restore(saved[1])
            self._open.append((element, iterator))


class Directed(Dataset):
    """Elements of several datasets, in the order that a dataset of numbers gives."""

    def __init__(
        self,
        selector: Dataset,
        parts: Sequence[Dataset],
        types: Any,
        shapes: Any,
        stops_on_empty: bool = False,
    ) -> None:
        super().__init__(types, shapes)
        self.selector, self.parts = selector, list(parts)
        self.stops_on_empty = stops_on_empty

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _DirectedIterator(self, context)

    def cardinality(self) -> int:
        """Known where all that could be chosen is endless."""
        sizes = [part.cardinality() for part in self.parts]
        return INFINITE if all(size == INFINITE for size in sizes) else UNKNOWN

    def sources(self) -> list[Dataset]:
        """The selector and the parts."""
        return [self.selector, *self.parts]


class _DirectedIterator(PullIterator):
    def __init__(self, dataset: Directed, context: Context) -> None:
        super().__init__(context)
        self._dataset = dataset
        self._selector = dataset.selector.iterator(context)
        self._parts: list[PullIterator | None] = [p.iterator(context) for p in dataset.parts]

    def next(self) -> Element:
        while any(part is not None for part in self._parts):
            (chosen,) = arrays(self._selector.next(), self._dataset.selector.kinds)
            index = int(chosen)
            if not 0 <= index < len(self._parts):
                raise ValueError(f"Selector index out of range: {index} >= {len(self._parts)}")
            part = self._parts[index]
            if part is None:
                continue
            try:
                return part.next()
            except EndOfSequence:
                part.close()
                self._parts[index] = None
                if self._dataset.stops_on_empty:
                    break
        raise EndOfSequence

    def close(self) -> None:
        self._selector.close()
        for part in self._parts:
            if part is not None:
                part.close()

    def save(self) -> State:
        return {
            "selector": self._selector.save(),
            "parts": [None if part is None else part.save() for part in self._parts],
        }

    def restore(self, state: State) -> None:
        self.close()
        self._selector.restore(state["selector"])
        self._parts = []
        for part, saved in zip(self._dataset.parts, state["parts"], strict=True):
            iterator = None if saved is None else part.iterator(self.context)
            if iterator is not None:
                iterator.restore(saved)
            self._parts.append(iterator)
