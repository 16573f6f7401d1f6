"""Variables that tasks of one machine read by themselves, without a message.

A task *publishes* the newest values of some variables as versions of a snapshot, in memory that it
shares. A task that was told of the snapshot takes the version that is published, and uses it where
it is; the next version is written beside it, on a *page* that nobody uses. So a reader never waits,
and never sees half of an update.

The first word of a snapshot's control file tells the page that is published and the number of the
version. A reader puts the page's number into a *cell* of its own before it uses the page, and then
looks whether the page is still published; the owner writes only to pages that are not published and
are in no cell. Each looks at the other's word after it has written its own, with a locked
instruction between (that of a lock's release), so at least one of them sees what the other has
done. That is so on x86; on other processors there are no snapshots.

A reader can spoil nothing but what is published: what it writes into the control file makes the
owner keep pages, a few for each reader, or publish nothing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from millrace.core.convert import Array
from millrace.rpc import shared_memory

IS_SUPPORTED = shared_memory.IS_SUPPORTED and platform.machine().lower() in ("x86_64", "amd64")

_CONTROL_BYTES = 4096
#: The word of the published page: (version << 8) + page, 0 for none, -1 when it is over.
_PUBLISHED = 0
_OVER = -1
#: A byte that readers set.
_WAS_READ = 16
#: The cells: 0, or one more than the page that is used.
_FIRST_CELL, _CELLS = 64, 512
#: The words that tell the pages' files.
_FIRST_FILE, _MAX_PAGES = 1024 // 8, 64
#: How many pages one reader may use at a time.
CELLS_EACH = 4
_LOCATION = struct.Struct("<III")


class Location(NamedTuple):
    """Where a reader finds a snapshot: its control file, and the reader's cells."""

    file: int
    first_cell: int
    cells: int

    def pack(self) -> bytes:
        """As bytes."""
        return _LOCATION.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> Location:
        """From bytes.

        Raises:
          ValueError: They are not a location.
        """
        try:
            location = cls(*_LOCATION.unpack(data))
        except struct.error as error:
            raise ValueError(f"These bytes tell no snapshot: {error}") from None
        if not (
            location.first_cell >= _FIRST_CELL
            and location.cells > 0
            and location.first_cell + location.cells <= _FIRST_CELL + _CELLS
        ):
            raise ValueError(f"A snapshot has no cells {location.first_cell} + {location.cells}.")
        return location


#: The type and the shape of an array.
ArrayKind = tuple["np.dtype[Any]", tuple[int, ...]]


class Snapshot:
    """A snapshot, for its owner; one thread at a time."""

    def __init__(self, kinds: Sequence[ArrayKind], starts: Sequence[int], size: int) -> None:
        """Makes a snapshot that has no version yet.

        Args:
          kinds: The type and shape of each array.
          starts: Where each begins on a page.
          size: Of a page.

        Raises:
          OSError: There is no memory for it.
        """
        self._kinds = list(kinds)
        self._starts = list(starts)
        self._size = size
        self._file = shared_memory.make_file(_CONTROL_BYTES)
        self._control = mmap.mmap(self._file, _CONTROL_BYTES)
        self._words = memoryview(self._control).cast("q")
        self._fence = threading.Lock()
        self._files: list[int] = []
        #: For each page, where the arrays are on it.
        self._pages: list[list[Any]] = []
        self._page = -1
        self._version = 0
        self._next_cell = _FIRST_CELL
        self._readers = 0

    def admit(self) -> Location | None:
        """A place for one more reader; None when there is none."""
        first = self._next_cell
        if first + CELLS_EACH > _FIRST_CELL + _CELLS:
            return None
        self._next_cell += CELLS_EACH
        self._readers += 1
        return Location(self._file, first, CELLS_EACH)

    def dismiss(self, location: Location) -> None:
        """A reader is gone, and uses no page any more; its cells are never another's."""
        self._control[location.first_cell : location.first_cell + location.cells] = bytes(
            location.cells
        )
        self._readers -= 1

    def was_read(self) -> bool:
        """Whether somebody has read since it was asked last."""
        if not self._control[_WAS_READ]:
            return False
        self._control[_WAS_READ] = 0
        return True

    def publish(self, arrays: Sequence[Array]) -> bool:
        """Publishes arrays of its types and shapes; False if there is no page for them."""
        page = self._free_page()
        if page is None:
            self.withdraw()
            return False
        for location, array in zip(self._pages[page], arrays, strict=True):
            location[...] = array
        self._version += 1
        self._page = page
        self._words[_PUBLISHED] = self._version << 8 | page
        return True

    def withdraw(self) -> None:
        """Withdraws the version that is published."""
        self._page = -1
        self._words[_PUBLISHED] = 0

    def _free_page(self) -> int | None:
        with self._fence:
            pass
        used = self._control[_FIRST_CELL : self._next_cell]
        for page in range(len(self._pages)):
            if page != self._page and page + 1 not in used:
                return page
        if len(self._pages) >= min(_MAX_PAGES, 2 + 2 * self._readers):
            return None
        try:
            file = shared_memory.make_file(max(1, self._size))
        except OSError:  # no memory, or no more files
            return None
        memory = mmap.mmap(file, 0)
        self._files.append(file)
        self._pages.append(
            [
                np.ndarray(shape, dtype, memory, start)
                for (dtype, shape), start in zip(self._kinds, self._starts, strict=True)
            ]
        )
        page = len(self._pages) - 1
        self._words[_FIRST_FILE + page] = file
        return page

    def close(self) -> None:
        """Publishes nothing any more; readers keep what they use."""
        self._words[_PUBLISHED] = _OVER
        for file in (self._file, *self._files):
            os.close(file)
        self._files.clear()
        self._pages.clear()


class _Page:
    """Mixed into the type of a page that is used; its end frees the cell."""

    reader: Any = None
    cell = 0

    def __del__(self) -> None:
        if self.reader is not None:
            self.reader.leave(self.cell)


class SnapshotReader:
    """A snapshot, for a task that reads it."""

    def __init__(
        self,
        process: int,
        location: Location,
        kinds: Sequence[ArrayKind],
        layout: tuple[list[int], int],
    ) -> None:
        """Finds a snapshot.

        Args:
          process: The owner.
          location: What the owner told.
          kinds: The type and shape of each array.
          layout: Where each begins on a page, and the size of a page.

        Raises:
          OSError, ValueError: There is no such snapshot.
        """
        self._process = process
        self._control = shared_memory.open_file(process, location.file)
        if len(self._control) < _CONTROL_BYTES:
            raise ValueError(f"A snapshot of {len(self._control)} bytes is none.")
        self._words = memoryview(self._control).cast("q")
        starts, self._size = layout
        self._arrays = [
            (shape, dtype, start) for (dtype, shape), start in zip(kinds, starts, strict=True)
        ]
        self._type: Any = type("Page", (_Page, ctypes.c_char * self._size), {})
        self._lock = threading.Lock()
        self._free = list(range(location.first_cell, location.first_cell + location.cells))
        self._pages: dict[int, Any] = {}

    @property
    def is_over(self) -> bool:
        """Whether no version will be published any more."""
        return self._words[_PUBLISHED] == _OVER

    def take(self) -> list[Array] | None:
        """The version that is published, to be looked at but not changed; None if there is none.

        It stays as it is while somebody holds one of the arrays.
        """
        for _ in range(3):
            word = self._words[_PUBLISHED]
            if word <= 0:
                return None
            with self._lock:
                if not self._free:
                    return None
                cell = self._free.pop()
                self._control[cell] = (word & 0xFF) + 1
            if self._words[_PUBLISHED] == word:
                self._control[_WAS_READ] = 1
                page = self._pages.get(word & 0xFF) or self._open(word & 0xFF)
                if page is None:
                    self.leave(cell)
                    return None
                block = self._type.from_buffer(page)
                block.reader, block.cell = self, cell
                return [np.ndarray(shape, kind, block, at) for shape, kind, at in self._arrays]
            self.leave(cell)
        return None

    def _open(self, number: int) -> mmap.mmap | None:
        """The memory of a page that was not used before; None if it cannot be used."""
        try:
            page = shared_memory.open_file(self._process, self._words[_FIRST_FILE + number])
            if len(page) < self._size:
                raise ValueError(f"A page of {len(page)} bytes is too small.")
        except (OSError, ValueError):
            return None
        if self._words[_PUBLISHED] == _OVER:
            return None
        self._pages[number] = page
        return page

    def leave(self, cell: int) -> None:
        """Ends the use of a page; called where the last array goes, in any thread."""
        self._control[cell] = 0
        self._free.append(cell)
