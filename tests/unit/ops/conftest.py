"""Ops are tried as parts of XLA programs, whole numbers too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import host_integers


def fed(value: Any, dtype: Any = np.float32, shape: Any = "same") -> tf.Tensor:
    """A tensor whose value is known only in the run."""
    array = np.array(value, dtype)
    return tf.placeholder_with_default(array, array.shape if shape == "same" else shape)


def run(fetches: Any, feed: Any = None) -> Any:
    """What a session of its own makes of them."""
    with tf.Session() as session:
        return session.run(fetches, feed)


@pytest.fixture(autouse=True)
def compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does not let small programs run on NumPy first, where folding is tried anyway."""
    monkeypatch.setattr(host_integers, "RUNS", 0)
