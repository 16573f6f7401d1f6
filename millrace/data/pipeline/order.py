"""Datasets that leave elements as they are: fewer of them, again, in a row, side by side, kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.data.pipeline.dataset import (
    INFINITE,
    UNKNOWN,
    Context,
    Dataset,
    PullIterator,
    State,
    Transformation,
    TransformingIterator,
)
from millrace.data.pipeline.element import Element, components


class Take(Transformation):
    """The first `count` elements; all of them when it is negative."""

    def __init__(self, source: Dataset, count: int) -> None:
        super().__init__(source)
        self.count = count

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _TakeIterator(self, context)

    def cardinality(self) -> int:
        """At most `count`."""
        there = self.source.cardinality()
        if self.count < 0 or there == UNKNOWN:
            return there
        return self.count if there == INFINITE else min(there, self.count)


class _TakeIterator(TransformingIterator):
    def __init__(self, dataset: Take, context: Context) -> None:
        super().__init__(dataset, context)
        self._count = dataset.count
        self._taken = 0

    def take(self, count: int) -> list[Element]:
        if self._count >= 0:
            count = min(count, self._count - self._taken)
            if count <= 0:
                return []
        found = self.source.take(count)
        self._taken += len(found)
        return found

    def save(self) -> State:
        return {**super().save(), "taken": self._taken}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._taken = int(state["taken"])


class Skip(Transformation):
    """What follows the first `count` elements; nothing when it is negative."""

    def __init__(self, source: Dataset, count: int) -> None:
        super().__init__(source)
        self.count = count

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _SkipIterator(self, context)

    def cardinality(self) -> int:
        """What is left."""
        there = self.source.cardinality()
        if self.count < 0:
            return 0
        return there if there < 0 else max(there - self.count, 0)


class _SkipIterator(TransformingIterator):
    def __init__(self, dataset: Skip, context: Context) -> None:
        super().__init__(dataset, context)
        self._left = dataset.count

    def take(self, count: int) -> list[Element]:
        if self._left < 0:
            return []
        while self._left:
            skipped = len(self.source.take(min(self._left, 1024)))
            if not skipped:
                return []
            self._left -= skipped
        return self.source.take(count)

    def save(self) -> State:
        return {**super().save(), "left": self._left}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._left = int(state["left"])


class Shard(Transformation):
    """Every `count`-th element, from the one at `index`."""

    def __init__(self, source: Dataset, count: int, index: int) -> None:
        super().__init__(source)
        if count <= 0:
            raise ValueError(
                f"Number of shards must be greater than zero (currently num_shards = {count})."
            )
        if not 0 <= index < count:
            raise ValueError(
                f"Index must be between 0 and {count - 1} (currently index = {index})."
            )
        self.count, self.index = count, index

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _ShardIterator(self, context)

    def cardinality(self) -> int:
        """A share."""
        there = self.source.cardinality()
        return there if there < 0 else len(range(self.index, there, self.count))


class _ShardIterator(TransformingIterator):
    def __init__(self, dataset: Shard, context: Context) -> None:
        super().__init__(dataset, context)
        self._count, self._index = dataset.count, dataset.index
        self._seen = 0

    def take(self, count: int) -> list[Element]:
        while True:
            elements = self.source.take(min(count * self._count, 4096))
            if not elements:
                return []
            first = (self._index - self._seen) % self._count
            self._seen += len(elements)
            found = elements[first :: self._count]
            if found:
                return found

    def save(self) -> State:
        return {**super().save(), "seen": self._seen}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._seen = int(state["seen"])


class Repeat(Transformation):
    """All elements `count` times; without an end when it is negative."""

    def __init__(self, source: Dataset, count: int) -> None:
        super().__init__(source)
        self.count = count

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _RepeatIterator(self, context)

    def cardinality(self) -> int:
        """So many times as many."""
        there = self.source.cardinality()
        if self.count < 0:
            return INFINITE if there else 0
        if self.count == 0:
            return 0
        return there if there < 0 else there * self.count


class _RepeatIterator(PullIterator):
    """Invariant: `_source` is the iterator of epoch `_epoch`, or None at its beginning."""

    def __init__(self, dataset: Repeat, context: Context) -> None:
        super().__init__(context)
        self._dataset = dataset
        self._epoch = 0
        self._source: PullIterator | None = None
        self._is_over = False

    def take(self, count: int) -> list[Element]:
        dataset = self._dataset
        while not self._is_over and (dataset.count < 0 or self._epoch < dataset.count):
            is_new = self._source is None
            if self._source is None:
                self._source = dataset.source.iterator(self.context)
            found = self._source.take(count)
            if found:
                return found
            self.close()
            self._epoch += 1
            if is_new and dataset.count < 0:
                self._is_over = True  # an empty dataset is empty for ever
        return []

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def save(self) -> State:
        source = None if self._source is None else self._source.save()
        return {"epoch": self._epoch, "source": source, "is_over": self._is_over}

    def restore(self, state: State) -> None:
        self.close()
        self._epoch, self._is_over = int(state["epoch"]), bool(state["is_over"])
        if state["source"] is not None:
            self._source = self._dataset.source.iterator(self.context)
            self._source.restore(state["source"])


class Concatenate(Dataset):
    """The elements of one dataset after those of another."""

    def __init__(self, parts: Sequence[Dataset], types: Any, shapes: Any) -> None:
        super().__init__(types, shapes)
        self.parts = list(parts)

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _ConcatenateIterator(self, context)

    def cardinality(self) -> int:
        """All together."""
        sizes = [part.cardinality() for part in self.parts]
        if INFINITE in sizes:
            return INFINITE
        return UNKNOWN if UNKNOWN in sizes else sum(sizes)

    def sources(self) -> list[Dataset]:
        """The parts."""
        return self.parts


class _ConcatenateIterator(PullIterator):
    def __init__(self, dataset: Concatenate, context: Context) -> None:
        super().__init__(context)
        self._parts = dataset.parts
        self._index = 0
        self._source: PullIterator | None = None

    def take(self, count: int) -> list[Element]:
        while self._index < len(self._parts):
            if self._source is None:
                self._source = self._parts[self._index].iterator(self.context)
            found = self._source.take(count)
            if found:
                return found
            self.close()
            self._index += 1
        return []

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def save(self) -> State:
        source = None if self._source is None else self._source.save()
        return {"index": self._index, "source": source}

    def restore(self, state: State) -> None:
        self.close()
        self._index = int(state["index"])
        if state["source"] is not None:
            self._source = self._parts[self._index].iterator(self.context)
            self._source.restore(state["source"])


class Zip(Dataset):
    """Elements side by side, as long as every dataset has one."""

    def __init__(self, parts: Sequence[Dataset], types: Any, shapes: Any) -> None:
        super().__init__(types, shapes)
        self.parts = list(parts)

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _ZipIterator(self, context)

    def cardinality(self) -> int:
        """That of the shortest."""
        sizes = [part.cardinality() for part in self.parts]
        if UNKNOWN in sizes:
            return UNKNOWN
        finite = [size for size in sizes if size >= 0]
        return min(finite) if finite else INFINITE

    def sources(self) -> list[Dataset]:
        """The parts."""
        return self.parts


class _ZipIterator(PullIterator):
    def __init__(self, dataset: Zip, context: Context) -> None:
        super().__init__(context)
        self._sources = [part.iterator(context) for part in dataset.parts]

    def next(self) -> Element:
        # An error in one part must not shift the others: all are asked, then the first error wins.
        found: list[Any] = []
        failed: Exception | None = None
        for source in self._sources:
            try:
                found.extend(components(source.next()))
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return tuple(found)

    def close(self) -> None:
        for source in self._sources:
            source.close()

    def save(self) -> State:
        return {"sources": [source.save() for source in self._sources]}

    def restore(self, state: State) -> None:
        for source, saved in zip(self._sources, state["sources"], strict=True):
            source.restore(saved)
