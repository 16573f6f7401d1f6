"""Arrays at addresses where XLA uses them as they are: others it copies, in another thread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: What an address must be a multiple of.
ALIGNMENT = 64
#: Smaller arrays are copied at once, which costs less than to look.
LITTLE = 64 << 10


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialised array."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned(value: Any) -> Any:
    """The value itself, or a copy of a large array that begins elsewhere."""
    if type(value) is not np.ndarray or value.nbytes < LITTLE:
        return value
    if value.__array_interface__["data"][0] % ALIGNMENT == 0 and value.flags.c_contiguous:
        return value
    copy = empty(value.shape, value.dtype)
    copy[...] = value
    return copy
