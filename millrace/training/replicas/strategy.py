"""`tf.distribute`'s strategies as far as a graph without one answers: one replica, one device.

Training on several tasks is done with device functions, SyncReplicasOptimizer and supervised
sessions, not with strategies; libraries that ask which strategy is in use get the default one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Callable, Iterator
from typing import Any

from millrace.core import errors
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

    def run(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """Calls `fn` for the one replica."""
        return fn(*args, **(kwargs or {}))

    @property
    def extended(self) -> Strategy:
        """Where TensorFlow keeps what few programs need: with one replica, the same object."""
        return self

    def call_for_each_replica(
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

    def __init__(self, device: str, num_gpus_per_worker: int | None = None) -> None:
        """Takes the device's name."""
        self._device = device

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """What is built inside is on the device, and finds this strategy."""
        with _as_current(self), device(self._device):
            yield self


class MirroredStrategy(Strategy):
    """A replica on each device of this process; here there is one."""

    def __init__(self, devices: Any = None, cross_device_ops: Any = None, **_: Any) -> None:
        """Makes the strategy.

        Args:
          devices: The names of the devices; None for all there are.
          cross_device_ops: How gradients are joined; with one replica there is nothing to join.

        Raises:
          UnimplementedError: Several devices are named.
        """
        self._devices = tuple(devices or ("/cpu:0",))
        if len(set(self._devices)) > 1:
            raise errors.UnimplementedError(
                None,
                None,
                f"MirroredStrategy over several devices ({', '.join(self._devices)}): a process "
                "trains one replica here. Leave `devices` out, and train several replicas with "
                "tf.estimator.train_and_evaluate on a cluster, or build towers "
                "(examples/towers.py).",
            )

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """What is built inside finds this strategy."""
        with _as_current(self):
            yield self


class ParameterServerStrategy(Strategy):
    """Variables on parameter servers, a replica per worker, each with a graph of its own.

    An Estimator whose TF_CONFIG names a cluster does this with or without the strategy.
    """

    def __init__(self, cluster_resolver: Any = None, **_: Any) -> None:
        """Takes who is in the cluster; an Estimator reads TF_CONFIG."""
        self.cluster_resolver = cluster_resolver

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """What is built inside finds this strategy."""
        with _as_current(self):
            yield self


@dataclasses.dataclass(frozen=True)
class InputContext:
    """Which part of the input a worker reads: what an input function may take."""

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """The size of a replica's batch.

        Raises:
          ValueError: It is no whole number.
        """
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size} is not divisible by "
                f"`num_replicas_in_sync` {self.num_replicas_in_sync} "
            )
        return global_batch_size // self.num_replicas_in_sync


@dataclasses.dataclass(frozen=True)
class DistributeConfig:
    """The strategies of training and evaluation, for a RunConfig."""

    train_distribute: Any = None
    eval_distribute: Any = None
    remote_cluster: Any = None


_default = Strategy()
_entered: list[Strategy] = []


@contextlib.contextmanager
def _as_current(strategy: Strategy) -> Iterator[None]:
    _entered.append(strategy)
    try:
        yield
    finally:
        _entered.pop()


def get_strategy() -> Strategy:
    """The strategy whose scope is open, or the default one."""
    return _entered[-1] if _entered else _default


def has_strategy() -> bool:
    """Whether a strategy's scope is open."""
    return bool(_entered)


def in_cross_replica_context() -> bool:
    """Whether a strategy's scope is open: then there is no replica yet."""
    return bool(_entered)
