"""Tier 0: what a stage's first run holds in memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import millrace as tf


@pytest.mark.parametrize("mode", ["background", "never"])
def test_large_values_go_after_their_last_use_in_the_first_run(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("MILLRACE_COMPILE", mode)
    x = tf.placeholder(tf.float32, [None])
    y = x
    for _ in range(12):
        y = tf.sqrt(y)
    total = tf.reduce_sum(y)
    given = np.ones(1 << 20, np.float32)
    with tf.Session() as sess:
        tracemalloc.start()
        try:
            assert sess.run(total, {x: given}) == given.size
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 6 * given.nbytes
