"""Rows of fixed lengths are the same on NumPy and on XLA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from millrace.compiler.xla import jnp
from millrace.ops.cluster import padded_unique

_NONE = padded_unique.padding(np.int64)
_IDS = np.array([3, 1, 3, _NONE, 7, 1, _NONE, 0])
_TABLE = np.arange(24, dtype=np.float32).reshape(8, 3)


def _no_check(*_: Any) -> None:
    pass


@pytest.mark.parametrize(
    "call",
    [
        lambda xp: padded_unique.PaddedUnique.kernel(
            xp.asarray(_IDS), padded=True, check=_no_check, xp=xp
        ),
        lambda xp: padded_unique.MaskedPartition.kernel(
            xp.asarray(_IDS), xp.asarray(_IDS % 3), num_partitions=3, check=_no_check, xp=xp
        ),
        lambda xp: padded_unique.MaskedTake.kernel(
            xp.asarray(_TABLE), xp.asarray(_IDS), in_place=False, zeros=True, check=_no_check, xp=xp
        ),
        lambda xp: padded_unique.MaskedTake.kernel(
            xp.asarray(_TABLE), xp.asarray(_IDS), in_place=True, zeros=True, check=_no_check, xp=xp
        ),
    ],
    ids=["unique", "partition", "take", "take in place"],
)
def test_padded_rows_are_the_same_on_both_tiers(call: Any) -> None:
    for found, expected in zip(call(np), call(jnp), strict=True):
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, expected)
