"""Datasets that sort elements by a key: windows of one key, and one result for each key."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from millrace.data.pipeline.dataset import (
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
from millrace.data.pipeline.element import Element, arrays
from millrace.data.pipeline.interleaving import dataset_in
from millrace.data.pipeline.sources import Elements


def _key_of(call: Call, element: list[Any]) -> int:
    (key,) = call(element)
    if np.ndim(key) or np.asarray(key).dtype != np.int64:
        raise ValueError("`key_func` must return a scalar int64.")
    return int(key)


class GroupByWindow(Transformation):
    """Elements of one key, reduced together as soon as there are enough of them.

    Args:
      source: Where elements come from.
      key: From an element to its key.
      reduce: From a key and a dataset of its elements to a dataset.
      window_size: From a key to how many elements are enough.
    """

    def __init__(
        self, source: Dataset, key: Call, reduce: Call, window_size: Call, types: Any, shapes: Any
    ) -> None:
        super().__init__(source, types, shapes)
        self.key, self.reduce, self.window_size = key, reduce, window_size

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _GroupByWindowIterator(self, context)

    @property
    def is_quick(self) -> bool:
        """Nobody knows what a function does."""
        return False


class _GroupByWindowIterator(TransformingIterator):
    """Invariant: `_current` is the group that gives elements now, made of `_current_of`."""

    def __init__(self, dataset: GroupByWindow, context: Context) -> None:
        super().__init__(dataset, context)
        self._dataset = dataset
        self._groups: dict[int, list[Element]] = {}
        self._sizes: dict[int, int] = {}
        self._current: PullIterator | None = None
        self._current_of: tuple[int, list[Element]] | None = None
        #: Keys whose groups are given out at the end of the source.
        self._last: deque[int] | None = None

    def take(self, count: int) -> list[Element]:
        while True:
            if self._current is not None:
                found = self._current.take(count)
                if found:
                    return found
                self._current.close()
                self._current = self._current_of = None
            if self._last is None:
                self._gather()
            elif self._last:
                self._open(self._last.popleft())
            else:
                return []

    def _gather(self) -> None:
        dataset = self._dataset
        try:
            element = self.source.next()
        except EndOfSequence:
            self._last = deque(sorted(self._groups))
            return
        key = _key_of(dataset.key, arrays(element, dataset.source.kinds))
        size = self._sizes.get(key)
        if size is None:
            (found,) = dataset.window_size([np.array(key, np.int64)])
            size = self._sizes[key] = int(found)
            if size <= 0:
                raise ValueError(f"Window size must be greater than zero, but got {size}.")
        group = self._groups.setdefault(key, [])
        group.append(element)
        if len(group) >= size:
            self._open(key)

    def _open(self, key: int) -> None:
        group = self._groups.pop(key)
        self._sizes.pop(key, None)
        self._current_of = key, group
        source = self._dataset.source
        boxed = np.empty((), object)
        boxed[()] = Elements(group, source.types, source.shapes)
        result = self._dataset.reduce([np.array(key, np.int64), boxed])
        self._current = dataset_in(tuple(result)).iterator(self.context)

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
        super().close()

    def save(self) -> State:
        current: Any = None
        if self._current is not None and self._current_of is not None:
            key, group = self._current_of
            current = [key, saved_elements(group), self._current.save()]
        return {
            **super().save(),
            "groups": [[key, saved_elements(group)] for key, group in self._groups.items()],
            "sizes": [[key, size] for key, size in self._sizes.items()],
            "last": None if self._last is None else list(self._last),
            "current": current,
        }

    def restore(self, state: State) -> None:
        super().restore(state)
        self._current = self._current_of = None
        if state["current"] is not None:
            key, group, inner = state["current"]
            self._groups = {key: restored_elements(group)}
            self._open(key)
            assert self._current is not None
            self._current.restore(inner)
        self._groups = {key: restored_elements(group) for key, group in state["groups"]}
        self._sizes = {key: size for key, size in state["sizes"]}
        self._last = None if state["last"] is None else deque(state["last"])


class GroupByReducer(Transformation):
    """One element for each key: what a reducer makes of all elements that have it."""

    def __init__(
        self,
        source: Dataset,
        key: Call,
        init: Call,
        reduce: Call,
        finalize: Call,
        types: Any,
        shapes: Any,
    ) -> None:
        super().__init__(source, types, shapes)
        self.key, self.init, self.reduce, self.finalize = key, init, reduce, finalize

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _GroupByReducerIterator(self, context)

    @property
    def is_quick(self) -> bool:
        """Nobody knows what a function does."""
        return False


class _GroupByReducerIterator(TransformingIterator):
    def __init__(self, dataset: GroupByReducer, context: Context) -> None:
        super().__init__(dataset, context)
        self._dataset = dataset
        self._states: dict[int, list[Any]] = {}
        self._last: deque[int] | None = None

    def next(self) -> Element:
        dataset = self._dataset
        while self._last is None:
            try:
                element = arrays(self.source.next(), dataset.source.kinds)
            except EndOfSequence:
                self._last = deque(sorted(self._states))
                break
            key = _key_of(dataset.key, element)
            if key not in self._states:
                self._states[key] = dataset.init([np.array(key, np.int64)])
            self._states[key] = dataset.reduce([*self._states[key], *element])
        if not self._last:
            raise EndOfSequence
        return tuple(dataset.finalize(self._states.pop(self._last.popleft())))

    def save(self) -> State:
        return {
            **super().save(),
            "states": [[key, list(values)] for key, values in self._states.items()],
            "last": None if self._last is None else list(self._last),
        }

    def restore(self, state: State) -> None:
        super().restore(state)
        self._states = {key: values for key, values in state["states"]}
        self._last = None if state["last"] is None else deque(state["last"])
