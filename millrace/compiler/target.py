"""What the program that a thread traces is for: XLA, or evaluation with NumPy.

A kernel may choose its lowering by it: calls into XLA's own libraries mean nothing to NumPy.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _Target(threading.local):
    is_numpy = False


_target = _Target()


def is_numpy() -> bool:
    """Whether what this thread traces is for NumPy."""
    return _target.is_numpy


@contextlib.contextmanager
def numpy() -> Iterator[None]:
    """Says that what this thread traces is for NumPy."""
    before, _target.is_numpy = _target.is_numpy, True
    try:
        yield
    finally:
        _target.is_numpy = before
