"""`tf.distribute`'s strategies as far as a graph without one answers: one replica, one device.

Training on several tasks is done with device functions, SyncReplicasOptimizer and supervised
sessions, not with strategies; libraries that ask which strategy is in use get the default one.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator
from typing import Any

from millrace.graph.defaults import device


class ReduceOp(enum.Enum):
    """How values of several replicas become one."""

    SUM = "SUM"
    MEAN = "MEAN"


class Strategy:
    """A strategy with one replica."""

    #: How many replicas compute at a time.
    num_replicas_in_sync = 1

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """What is built inside is built as it would be outside."""
        yield self

    def experimental_run_v2(
        self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Calls `fn` for the one replica."""
        return fn(*args, **(kwargs or {}))

    def reduce(self, reduce_op: Any, value: Any, axis: Any = None) -> Any:
        """The value of the one replica.

        Raises:
          NotImplementedError: A dimension is to be reduced.
        """
        if axis is not None:
            raise NotImplementedError("reduce over a dimension: use tf.reduce_sum or reduce_mean")
        return value

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """The values of the replicas: one."""
        return (value,)


class OneDeviceStrategy(Strategy):
    """Everything inside its scope is on one device."""

    def __init__(self, device: str) -> None:
        """Takes the device's name."""
        self._device = device

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """What is built inside is on the device, and finds this strategy."""
        _entered.append(self)
        try:
            with device(self._device):
                yield self
        finally:
            _entered.pop()


_default = Strategy()
_entered: list[Strategy] = []


def get_strategy() -> Strategy:
    """The strategy whose scope is open, or the default one."""
    return _entered[-1] if _entered else _default


def has_strategy() -> bool:
    """Whether a strategy's scope is open."""
    return bool(_entered)


def in_cross_replica_context() -> bool:
    """Whether a strategy's scope is open: then there is no replica yet."""
    return bool(_entered)
