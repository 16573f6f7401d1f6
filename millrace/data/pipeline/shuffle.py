"""Shuffling in a buffer, in TensorFlow's order for given seeds.

The buffer is a ring of slices, one per epoch: elements leave from the oldest slice, so that with
`ShuffleAndRepeat` an epoch begins to fill the buffer while the one before it still empties it.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from millrace.core.philox_words import PhiloxStream
from millrace.data.pipeline.dataset import (
    INFINITE,
    Context,
    Dataset,
    PullIterator,
    State,
    Transformation,
    restored_elements,
    saved_elements,
)
from millrace.data.pipeline.element import Element
from millrace.data.pipeline.sources import Seeds


class Shuffle(Transformation):
    """Elements in random order, `count` times (-1: without an end).

    Args:
      source: Where elements come from.
      buffer_size: How many elements one is chosen from.
      seeds: Of the iterators.
      count: How often the source is read; each time is shuffled by itself.
    """

    def __init__(self, source: Dataset, buffer_size: int, seeds: Seeds, count: int = 1) -> None:
        super().__init__(source)
        if buffer_size <= 0:
            raise ValueError("buffer_size must be greater than zero.")
        if count == 0 or count < -1:
            raise ValueError("count must be greater than zero or equal to -1 (infinitely repeat).")
        self.buffer_size, self.seeds, self.count = buffer_size, seeds, count

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _ShuffleIterator(self, context)

    def cardinality(self) -> int:
        """As many as there are, so many times."""
        there = self.source.cardinality()
        if self.count < 0:
            return INFINITE if there else 0
        return there if there < 0 else there * self.count


class _ShuffleIterator(PullIterator):
    """Invariant: `_buffer` has the elements of all slices in order; `_sizes` their numbers."""

    def __init__(self, dataset: Shuffle, context: Context) -> None:
        super().__init__(context)
        self._dataset = dataset
        self._begin(dataset.seeds.draw())
        self._source: PullIterator | None = dataset.source.iterator(context)
        self._epoch = 0

    def _begin(self, seeds: tuple[int, int], drawn: int = 0) -> None:
        self._seeds = seeds
        self._stream = PhiloxStream(*seeds, drawn=drawn)
        #: A list for each epoch in the buffer; its first `_gone[i]` places are used up.
        self._slices: deque[list[Element]] = deque([[]])
        self._gone = 0
        self._there = 0
        self._is_empty = True

    def take(self, count: int) -> list[Element]:
        found: list[Element] = []
        held, self._held = self._held, None
        if held is not None:
            raise held
        try:
            while len(found) < count:
                if self._source is not None:
                    self._fill()
                if not self._there:
                    break
                found.append(self._draw())
        except Exception as error:
            if not found:
                raise
            self._held = error
        return found

    def _fill(self) -> None:
        missing = self._dataset.buffer_size - self._there
        while missing > 0 and self._source is not None:
            elements = self._source.take(missing)
            if elements:
                self._is_empty = False
                self._slices[-1].extend(elements)
                self._there += len(elements)
                missing -= len(elements)
            else:
                self._following_epoch()

    def _following_epoch(self) -> None:
        assert self._source is not None
        self._source.close()
        self._source = None
        self._epoch += 1
        count = self._dataset.count
        if (count < 0 and not self._is_empty) or self._epoch < count:
            self._source = self._dataset.source.iterator(self.context)
            self._slices.append([])
            self._is_empty = True

    def _draw(self) -> Element:
        while self._gone == len(self._slices[0]):
            self._slices.popleft()
            self._gone = 0
            # Every pass has seeds of its own.
            self._seeds = self._dataset.seeds.draw()
            self._stream = PhiloxStream(*self._seeds)
        oldest, gone = self._slices[0], self._gone
        place = gone + self._stream.next() % (len(oldest) - gone)
        element = oldest[place]
        oldest[place] = oldest[gone]
        oldest[gone] = None
        self._gone = gone = gone + 1
        self._there -= 1
        if gone > 4096 and gone * 2 > len(oldest):
            del oldest[:gone]
            self._gone = 0
        return element

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def save(self) -> State:
        first, *others = self._slices
        return {
            "slices": [saved_elements(s) for s in (first[self._gone :], *others)],
            "seeds": list(self._seeds),
            "drawn": self._stream.drawn,
            "following_seeds": self._dataset.seeds.save(),
            "epoch": self._epoch,
            "is_empty": self._is_empty,
            "source": None if self._source is None else self._source.save(),
        }

    def restore(self, state: State) -> None:
        self.close()
        seeds: Any = tuple(int(seed) for seed in state["seeds"])
        self._dataset.seeds.restore(state["following_seeds"])
        self._begin(seeds, int(state["drawn"]))
        self._slices = deque(restored_elements(each) for each in state["slices"])
        self._there = sum(len(each) for each in self._slices)
        self._epoch, self._is_empty = int(state["epoch"]), bool(state["is_empty"])
        self._source = None
        if state["source"] is not None:
            self._source = self._dataset.source.iterator(self.context)
            self._source.restore(state["source"])
