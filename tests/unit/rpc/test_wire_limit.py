"""What does not fit into one message of protocol buffers is refused, with a way out."""

from __future__ import annotations

import numpy as np
import pytest

from millrace.core import errors
from millrace.rpc import wire_limit


def zeros(size: int) -> np.ndarray:
    """An array of so many bytes that takes no memory."""
    return np.broadcast_to(np.uint8(0), (size,))


def test_what_fits_is_let_through() -> None:
    wire_limit.check_fits([zeros(wire_limit.MAX_BYTES), "text", None], "The feeds", "Feed less.")


def test_values_that_are_too_large_together_are_refused() -> None:
    half = zeros(wire_limit.MAX_BYTES // 2 + 1)
    with pytest.raises(errors.InvalidArgumentError, match=r"The feeds have \d+ bytes.*Feed less\."):
        wire_limit.check_fits([half, half], "The feeds", "Feed less.")
