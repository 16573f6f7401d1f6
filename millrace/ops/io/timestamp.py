"""The time of day."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import scalars
from millrace.graph.tensor import Tensor

__all__ = ["timestamp"]


@op("Timestamp() -> ts: float64", shape=scalars, gradient=NO_GRADIENT, host=True, stateful=True)
def Timestamp() -> Any:
    """Seconds since 1970, when the op runs."""
    return np.float64(time.time())


def timestamp(name: str | None = None) -> Tensor:
    """Seconds since 1970 as a float64, at the time when the op runs."""
    result: Tensor = Timestamp(name=name)
    return result
