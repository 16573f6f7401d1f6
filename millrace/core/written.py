"""An array that is made where it is wanted: in a message, without a copy before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


class Written:
    """Says what an array is, and writes it when its place is known.

    Attributes:
      shape: Its shape.
      dtype: Its NumPy type.
    """

    __slots__ = ("_write", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any, write: Callable[[Any], None]) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._write = write

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return int(math.prod(self.shape) * self.dtype.itemsize)

    def write(self, place: Any) -> None:
        """Makes it in an array of its shape and type, without gaps."""
        self._write(place)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """It, in memory of its own."""
        made = np.empty(self.shape, self.dtype)
        self._write(made)
        return made if dtype is None else made.astype(dtype)
