"""Ops are tried as parts of XLA programs, whole numbers too."""

from __future__ import annotations

import pytest

from millrace.runtime import bookkeeping


@pytest.fixture(autouse=True)
def compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does not let small programs run on NumPy first, where folding is tried anyway."""
    monkeypatch.setattr(bookkeeping, "RUNS", 0)
