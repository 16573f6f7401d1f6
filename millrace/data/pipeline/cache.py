"""Datasets that keep their elements: in memory, or in files beside each other.

A cache is whole or it is none: it is used only after a pass that has reached the end. The files are
Millrace's own (``<name>.data``, ``<name>.index``, and ``<name>.lockfile`` while it is written).
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.data.pipeline import state_tensors
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
from millrace.data.pipeline.element import Element
from millrace.data.tfrecord import RecordReader, TFRecordWriter
from millrace.platform import gfile


class Memory:
    """Elements that are kept; shared by all iterators over one cached dataset."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: All of them, once somebody has come to the end.
        self.elements: list[Element] | None = None


class MemoryCache(Transformation):
    """The same elements, made once."""

    def __init__(self, source: Dataset, memory: Memory | None = None) -> None:
        super().__init__(source)
        self.memory = memory or Memory()

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        return _MemoryCacheIterator(self, context)

    def cardinality(self) -> int:
        """The same."""
        return self.source.cardinality()


class _MemoryCacheIterator(TransformingIterator):
    """Reads the kept elements if there were any when it began; else it makes and keeps them."""

    def __init__(self, dataset: MemoryCache, context: Context) -> None:
        super().__init__(dataset, context)
        self._memory = dataset.memory
        self._kept = self._memory.elements
        self._position = 0
        self._made: list[Element] = []

    def take(self, count: int) -> list[Element]:
        if self._kept is not None:
            found = self._kept[self._position : self._position + count]
            self._position += len(found)
            return found
        found = self.source.take(count)
        self._made.extend(found)
        if not found:
            with self._memory.lock:
                if self._memory.elements is None:
                    self._memory.elements = self._made
            self._kept, self._position = self._made, len(self._made)
        return found

    def save(self) -> State:
        if self._kept is not None:
            return {"kept": saved_elements(self._kept), "position": self._position}
        return {**super().save(), "made": saved_elements(self._made)}

    def restore(self, state: State) -> None:
        if "kept" in state:
            self._kept = restored_elements(state["kept"])
            self._position = int(state["position"])
            with self._memory.lock:
                self._memory.elements = self._memory.elements or self._kept
            return
        super().restore(state)
        self._kept, self._made = None, restored_elements(state["made"])


class FileCache(Transformation):
    """The same elements, made once and kept in a file."""

    def __init__(self, source: Dataset, path: str) -> None:
        super().__init__(source)
        self.path = path

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        if gfile.exists(f"{self.path}.index"):
            return _FileCacheReader(self, context)
        return _FileCacheWriter(self, context)

    def cardinality(self) -> int:
        """The same."""
        return self.source.cardinality()

    @property
    def is_quick(self) -> bool:
        """Files are not."""
        return False


class _FileCacheWriter(TransformingIterator):
    def __init__(self, dataset: FileCache, context: Context) -> None:
        super().__init__(dataset, context)
        self._path = dataset.path
        self._writer: TFRecordWriter | None = None
        self._count = 0
        self._is_over = False
        context.on_close(self._abandon)

    def next(self) -> Element:
        if self._is_over:
            raise EndOfSequence
        if self._writer is None:
            self._begin()
        assert self._writer is not None
        try:
            element = self.source.next()
        except EndOfSequence:
            self._writer.close()
            self._writer = None
            self._is_over = True
            with gfile.GFile(f"{self._path}.index", "w") as index:
                index.write(f"{self._count}\n")
            gfile.remove(f"{self._path}.lockfile")
            self.context.forget(self._abandon)
            raise
        self._writer.write(state_tensors.packed(saved_elements([element])[0]))
        self._count += 1
        return element

    def _begin(self) -> None:
        lock = f"{self._path}.lockfile"
        if gfile.exists(lock):
            raise errors.AlreadyExistsError(
                None,
                None,
                f"There appears to be a concurrent caching iterator running - cache lockfile "
                f"already exists ('{lock}'). If you are sure no other running computation is using "
                "this cache prefix, delete the lockfile and re-initialize the iterator.",
            )
        with gfile.GFile(lock, "w") as file:
            file.write("being written\n")
        self._writer = TFRecordWriter(f"{self._path}.data")

    def _abandon(self) -> None:
        """Nobody comes to the end: what was written is of no use."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            for end in ("data", "lockfile"):
                with contextlib.suppress(errors.OpError):
                    gfile.remove(f"{self._path}.{end}")

    def close(self) -> None:
        self.context.forget(self._abandon)
        self._abandon()
        super().close()

    def save(self) -> State:
        return {**super().save(), "count": self._count, "is_over": self._is_over}

    def restore(self, state: State) -> None:
        self._abandon()
        self._count, self._is_over = 0, False
        for _ in range(int(state["count"])):
            self.next()


class _FileCacheReader(PullIterator):
    def __init__(self, dataset: FileCache, context: Context) -> None:
        super().__init__(context)
        self._dataset = dataset
        self._reader: RecordReader | None = None
        self._read = 0

    def take(self, count: int) -> list[Element]:
        if self._reader is None:
            self._reader = RecordReader(f"{self._dataset.path}.data")
        records = self._reader.read_many(count)
        self._read += len(records)
        return [tuple(state_tensors.unpacked(record)) for record in records]

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def save(self) -> State:
        return {"count": self._read}

    def restore(self, state: State) -> None:
        self.close()
        self._read = 0
        while self._read < int(state["count"]) and self.take(int(state["count"]) - self._read):
            pass


def memory_of(value: Any) -> Memory | None:
    """The memory behind a handle input, if it is one."""
    found = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    return found if isinstance(found, Memory) else None
