"""Memory that two tasks on one machine share: tensors pass without the system's copies.

The sender writes a message's tensors into a *segment* and says in the message which one. The
receiver uses them where they are, and a byte at the segment's beginning tells the sender when
nobody holds them any more. A segment is an anonymous file that the receiver opens through the
sender's process, so nothing is left behind however a task ends, and only a task of the same user
on the same machine can open it.

A receiver trusts a sender with nothing but the tensors' values: it maps only files that were made
here and cannot shrink under it.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import secrets
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from millrace.core.value import JsonObject, Value
from millrace.core.written import Written

#: Tensors of fewer bytes travel in the message: the system copies them as quickly.
MIN_BYTES = 16 << 10
#: What one sender may hold for one receiver; what does not fit travels in the message.
MAX_BYTES = 4 << 30
_NAME = "millrace"
_LINK = f"/memfd:{_NAME}"
#: The state of a segment is its first byte; its tensors begin after so many.
_STATE_BYTES = 4096
_FREE, _USED = 0, 1
_GRAIN = 64 << 10
_SEALS = ("F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_SEAL")
_TOKEN_BYTES = 32

IS_SUPPORTED = hasattr(os, "memfd_create") and hasattr(fcntl, "F_ADD_SEALS")


def make_file(size: int) -> int:
    """A file of memory that keeps its size.

    Raises:
      OSError: There is not so much memory.
    """
    descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, size)  # Else a lack would be met while writing.
        seals = 0
        for name in _SEALS:
            seals |= getattr(fcntl, name)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def open_file(process: int, descriptor: int) -> mmap.mmap:
    """Another process's file of memory.

    Raises:
      OSError: It cannot be opened.
      ValueError: It is not one, or might shrink.
    """
    path = f"/proc/{process}/fd/{descriptor}"
    if not os.readlink(path).startswith(_LINK):
        raise ValueError(f"{path} is no shared memory of a Millrace task.")
    mine = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if not fcntl.fcntl(mine, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            raise ValueError(f"{path} might shrink.")
        return mmap.mmap(mine, 0)
    finally:
        os.close(mine)


class Segment:
    """Memory of this process that another one reads."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = -(-size // _GRAIN) * _GRAIN
        self.descriptor = make_file(_STATE_BYTES + self.size)
        self._map = mmap.mmap(self.descriptor, 0)

    @property
    def is_free(self) -> bool:
        """Whether the receiver holds nothing in it."""
        return self._map[0] == _FREE

    def write(self, arrays: list[Value], starts: Sequence[int]) -> None:
        """Copies arrays to their places, and marks it used."""
        self._map[0] = _USED
        try:
            for array, start in zip(arrays, starts, strict=True):
                place: Any = np.ndarray(array.shape, array.dtype, self._map, _STATE_BYTES + start)
                if type(array) is Written:
                    array.write(place)
                else:
                    place[...] = array
        except BaseException:
            self._map[0] = _FREE  # Nobody will be told of it.
            raise

    def close(self) -> None:
        """Gives it up; a receiver that still holds something in it keeps the memory."""
        os.close(self.descriptor)
        # Unmapped with the last array that looks into it.
        del self._map


class Outgoing:
    """What one task shares with another: segments that are used again when they are free."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._segments: list[Segment] = []
        self._made = 0
        self._closed = False

    def place(
        self, arrays: list[Value], starts: Sequence[int], size: int
    ) -> tuple[int, int] | None:
        """Writes arrays into a segment.

        Args:
          arrays: The arrays.
          starts: Where each begins.
          size: How many bytes that takes, from the first to the last.

        Returns:
          The segment's number and file descriptor, or None when they must travel otherwise.
        """
        if size < MIN_BYTES:
            return None
        with self._lock:
            segment = None if self._closed else self._take(size)
            if segment is None:
                return None
            # In the lock: from the first byte on, nobody else may find it free.
            segment.write(arrays, starts)
        return segment.number, segment.descriptor

    def _take(self, size: int) -> Segment | None:
        for segment in self._segments:
            if segment.size >= size and segment.is_free and segment.size <= 2 * size + _GRAIN:
                return segment
        free = [s for s in self._segments if s.is_free]
        held = sum(s.size for s in self._segments)
        for segment in free:  # of other sizes, which perhaps nobody wants any more
            if held + size <= self._limit:
                break
            held -= segment.size
            self._segments.remove(segment)
            segment.close()
        if held + size > self._limit:
            return None
        self._made += 1
        try:
            segment = Segment(self._made, size)
        except OSError:  # no memory, or no more files
            return None
        self._segments.append(segment)
        return segment

    @property
    def held_bytes(self) -> int:
        """How much memory it has."""
        with self._lock:
            return sum(s.size for s in self._segments)

    def close(self) -> None:
        """Gives all segments up."""
        with self._lock:
            self._closed = True
            segments, self._segments = self._segments, []
        for segment in segments:
            segment.close()


class _Block:
    """Mixed into the type of a block of shared memory; its end sets the segment free."""

    #: Nobody has it but who receives the message.
    is_received = True
    state: Any = None

    def __del__(self) -> None:
        if self.state is not None:
            self.state[0] = _FREE


class Incoming:
    """What another task shares with this one."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._maps: dict[int, Any] = {}

    def block(self, number: int, descriptor: int, size: int) -> memoryview:
        """The first `size` bytes of a segment; it is free for the sender when they are not held.

        Raises:
          OSError, ValueError: There is no such segment.
        """
        found = self._maps.get(number)
        if found is None:
            if len(self._maps) >= 64:  # The sender has given up some of them.
                self._maps.clear()
            found = self._maps[number] = open_file(self._process, descriptor)
        if _STATE_BYTES + size > len(found):
            raise ValueError(f"A segment of {len(found)} bytes cannot hold a message of {size}.")
        made = _block_type(size).from_buffer(found, _STATE_BYTES)
        made.state = found
        return memoryview(made).cast("B")


#: A class of blocks of one size, with `from_buffer` of ctypes; made at run time.
BlockType: TypeAlias = Any


def _block_type(size: int) -> BlockType:
    found = _block_types.get(size)
    if found is None:
        if len(_block_types) > 1024:
            _block_types.clear()
        found = _block_types[size] = type("Block", (_Block, ctypes.c_char * size), {})
    return found


_block_types: dict[int, BlockType] = {}


class Probe:
    """A token in memory of this process: who can read it can share memory with it."""

    def __init__(self) -> None:
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._descriptor = make_file(_TOKEN_BYTES)
        os.pwrite(self._descriptor, self._token, 0)

    def offer(self) -> JsonObject:
        """What another task needs to try it."""
        return {"process": os.getpid(), "file": self._descriptor, "token": self._token.hex()}

    def close(self) -> None:
        """Ends the offer."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def can_share(offer: JsonObject | None) -> int | None:
    """The process that made the offer, if its memory can be reached from here."""
    if offer is None:
        return None
    try:
        process = int(offer["process"])
        with open_file(process, int(offer["file"])) as found:
            same = secrets.compare_digest(found[:_TOKEN_BYTES], bytes.fromhex(offer["token"]))
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None
    return process if same else None
