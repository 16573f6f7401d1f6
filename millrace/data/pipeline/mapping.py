"""Datasets of a user's function: mapped, filtered, accumulated, taken while it holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.data.pipeline.dataset import (
    UNKNOWN,
    Call,
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
from millrace.data.pipeline.element import Element, arrays, stacked
from millrace.data.pipeline.workers import Calls

#: How many calls are made side by side where the program leaves the number to us.
AUTOMATIC_CALLS = max(2, os.cpu_count() or 2)


def caller(call: Call, kinds: Sequence[Any]) -> Callable[[Element], Element]:
    """A user's function on elements whose components have these NumPy types."""

    def apply(element: Element) -> Element:
        try:
            return tuple(call(arrays(element, kinds)))
        except errors.OutOfRangeError as error:
            # Else it would end the dataset.
            raise errors.InvalidArgumentError(
                None, error.op, f"Function invocation produced OutOfRangeError: {error.message}"
            ) from error

    return apply


class Map(Transformation):
    """The results of a function on each element.

    Args:
      source: Where elements come from.
      call: The function.
      types: The types of its results.
      shapes: Their static shapes.
      parallel_calls: How many calls run side by side; 0 for one after the other in the thread that
        pulls, -1 for as many as suit this machine.
      ordered: Whether results come in the order of the elements.
      keeps_count: Whether there are as many as before.
    """

    def __init__(
        self,
        source: Dataset,
        call: Call,
        types: Any,
        shapes: Any,
        parallel_calls: int = 0,
        ordered: bool = True,
        keeps_count: bool = True,
    ) -> None:
        super().__init__(source, types, shapes)
        if parallel_calls < -1:
            raise ValueError("num_parallel_calls must be greater than zero.")
        self.apply = caller(call, source.kinds)
        self.parallel_calls = AUTOMATIC_CALLS if parallel_calls == -1 else parallel_calls
        if getattr(call, "holds_lock", False):
            self.parallel_calls = 0  # Threads would take turns at the interpreter's lock.
        self.ordered, self.keeps_count = ordered, keeps_count

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        if self.parallel_calls > 0:
            return _ParallelMapIterator(self, context)
        return _MapIterator(self, context)

    def cardinality(self) -> int:
        """As many as before."""
        return self.source.cardinality() if self.keeps_count else UNKNOWN

    @property
    def is_quick(self) -> bool:
        """Nobody knows what a function does."""
        return False


class _MapIterator(TransformingIterator):
    """Invariant: `_ahead` was pulled and not mapped yet; it has elements only after an error."""

    def __init__(self, dataset: Map, context: Context) -> None:
        super().__init__(dataset, context)
        self._apply = dataset.apply
        self._ahead: list[Element] = []

    def take(self, count: int) -> list[Element]:
        held, self._held = self._held, None
        if held is not None:
            raise held
        elements = self._ahead or self.source.take(count)
        self._ahead = []
        found: list[Element] = []
        apply = self._apply
        for i, element in enumerate(elements):
            try:
                found.append(apply(element))
            except Exception as error:
                self._ahead = elements[i + 1 :]
                if not found:
                    raise
                self._held = error
                break
        return found

    def save(self) -> State:
        return {**super().save(), "ahead": saved_elements(self._ahead)}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._ahead = restored_elements(state["ahead"])


class _ParallelMapIterator(TransformingIterator):
    def __init__(self, dataset: Map, context: Context) -> None:
        super().__init__(dataset, context)
        threads = min(dataset.parallel_calls, 4 * AUTOMATIC_CALLS)
        self._calls = Calls(
            dataset.apply, dataset.parallel_calls, threads, dataset.ordered, context
        )
        self._is_over = False
        #: Of the source; its place is behind what is under way.
        self._pending_error: Exception | None = None

    def next(self) -> Element:
        while not self._is_over and self._pending_error is None and self._calls.room:
            try:
                found = self.source.take(self._calls.room)
            except Exception as error:
                self._pending_error = error
                break
            self._is_over = not found
            for element in found:
                self._calls.begin(element)
        if self._pending_error is not None and not self._calls.count:
            pending, self._pending_error = self._pending_error, None
            raise pending
        if not self._calls.count:
            raise EndOfSequence
        return self._calls.result()

    def save(self) -> State:
        elements = saved_elements(self._calls.elements())
        return {**super().save(), "under_way": elements, "is_over": self._is_over}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._calls.forget()
        self._is_over = bool(state["is_over"])
        for element in restored_elements(state["under_way"]):
            self._calls.begin(element)

    def close(self) -> None:
        self._calls.close()
        super().close()


class Filter(Transformation):
    """The elements for which a function holds.

    Args:
      source: Where elements come from.
      call: The function, to one bool.
      ends: Whether the first element for which it does not hold ends the dataset.
    """

    def __init__(self, source: Dataset, call: Call, types: Any, shapes: Any, ends: bool = False):
        super().__init__(source, types, shapes)
        self.apply = caller(call, source.kinds)
        self.ends = ends

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _FilterIterator(self, context)

    @property
    def is_quick(self) -> bool:
        """Nobody knows what a function does."""
        return False


class _FilterIterator(TransformingIterator):
    def __init__(self, dataset: Filter, context: Context) -> None:
        super().__init__(dataset, context)
        self._dataset = dataset
        self._is_over = False

    def next(self) -> Element:
        while not self._is_over:
            element = self.source.next()
            (holds,) = self._dataset.apply(element)
            if np.ndim(holds):
                raise ValueError(
                    "Filter predicate `f` must return a scalar bool, but returned shape "
                    f"{list(np.shape(holds))}"
                )
            if holds:
                return element
            self._is_over = self._dataset.ends
        raise EndOfSequence

    def save(self) -> State:
        return {**super().save(), "is_over": self._is_over}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._is_over = bool(state["is_over"])


class Scan(Transformation):
    """The results of a function on a state that it hands on, and each element."""

    def __init__(
        self, source: Dataset, call: Call, first: Sequence[Any], types: Any, shapes: Any
    ) -> None:
        super().__init__(source, types, shapes)
        self.call, self.first = call, list(first)

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _ScanIterator(self, context)

    @property
    def is_quick(self) -> bool:
        """Nobody knows what a function does."""
        return False


class _ScanIterator(TransformingIterator):
    def __init__(self, dataset: Scan, context: Context) -> None:
        super().__init__(dataset, context)
        self._dataset = dataset
        self._state = dataset.first

    def next(self) -> Element:
        dataset = self._dataset
        element = arrays(self.source.next(), dataset.source.kinds)
        results = dataset.call([*self._state, *element])
        count = len(self._state)
        self._state = results[:count]
        return tuple(results[count:])

    def save(self) -> State:
        return {**super().save(), "state": list(self._state)}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._state = list(state["state"])


class IgnoreErrors(Transformation):
    """The elements that could be made.

    Args:
      source: Where elements come from.
      warn: Told what is left out, and why; None for nobody.
    """

    def __init__(self, source: Dataset, warn: Callable[[str], None] | None = None) -> None:
        super().__init__(source)
        self.warn = warn

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _IgnoreErrorsIterator(self, context)


class _IgnoreErrorsIterator(TransformingIterator):
    def __init__(self, dataset: IgnoreErrors, context: Context) -> None:
        super().__init__(dataset, context)
        self._warn = dataset.warn

    def take(self, count: int) -> list[Element]:
        while True:
            try:
                return self.source.take(count)
            except errors.CancelledError:
                raise
            except Exception as error:
                self.context.check()
                if self._warn is not None:
                    self._warn(f"Error raised with error message {error}")


class MapAndBatch(Transformation):
    """`Map` and `Batch` in one: the function's calls for a batch run side by side."""

    def __init__(
        self,
        source: Dataset,
        call: Call,
        size: int,
        parallel_calls: int,
        drop_remainder: bool,
        types: Any,
        shapes: Any,
        inner_kinds: Sequence[Any],
    ) -> None:
        super().__init__(source, types, shapes)
        if size <= 0:
            raise ValueError("batch_size must be greater than zero.")
        if parallel_calls <= 0 and parallel_calls != -1:
            raise ValueError("num_parallel_calls must be greater than zero.")
        self.apply = caller(call, source.kinds)
        self.size, self.drop_remainder, self.inner_kinds = size, drop_remainder, inner_kinds
        self.holds_lock = bool(getattr(call, "holds_lock", False))
        self.parallel_calls = AUTOMATIC_CALLS if parallel_calls == -1 else parallel_calls

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _MapAndBatchIterator(self, context)

    def cardinality(self) -> int:
        """So many times fewer."""
        there = self.source.cardinality()
        if there < 0:
            return there
        return there // self.size if self.drop_remainder else -(-there // self.size)

    @property
    def is_quick(self) -> bool:
        """Nobody knows what a function does."""
        return False


class _MapAndBatchIterator(TransformingIterator):
    def __init__(self, dataset: MapAndBatch, context: Context) -> None:
        super().__init__(dataset, context)
        self._dataset = dataset
        threads = 1 if dataset.holds_lock else min(dataset.parallel_calls, 4 * AUTOMATIC_CALLS)
        self._calls = Calls(dataset.apply, max(dataset.size, threads), threads, True, context)

    def next(self) -> Element:
        dataset = self._dataset
        begun = self._calls.count
        while begun < dataset.size:
            found = self.source.take(dataset.size - begun)
            if not found:
                break
            for element in found:
                self._calls.begin(element)
            begun += len(found)
        if not begun or (dataset.drop_remainder and begun < dataset.size):
            self._calls.forget()
            raise EndOfSequence
        results: list[Element] = []
        failed: Exception | None = None
        for _ in range(begun):
            try:
                results.append(self._calls.result())
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return stacked(results, dataset.inner_kinds)

    def restore(self, state: State) -> None:
        super().restore(state)
        self._calls.forget()

    def close(self) -> None:
        self._calls.close()
        super().close()
