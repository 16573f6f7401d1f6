"""Where the ops of a replicated model go: parameters to the ps tasks, the rest to the worker.

`replica_device_setter` makes a device function for ``tf.device``. Every worker builds the same
graph in the same order, and a strategy looks at nothing but the op that it is given and those
before it: so all workers put a variable on the same ps task without talking to each other.

Must not: know which tasks run, or draw random numbers (two workers would disagree).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

from millrace.core.cluster_spec import ClusterSpec
from millrace.core.device_spec import DeviceSpec
from millrace.core.tensor_shape import as_shape
from millrace.platform import logging

#: The op types that hold parameters, unless `ps_ops` says otherwise.
STANDARD_PS_OPS = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesQuantileStreamResourceHandleOp",
    "ResourceConditionalAccumulator",
    "DecisionTreeResource",
)

#: Chooses the ps task of an op.
Strategy = Callable[[Any], int]


class RoundRobinStrategy:
    """Goes through the ps tasks in turn."""

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks = num_tasks
        self._next_task = 0

    def __call__(self, op: Any) -> int:
        """The task after the last one."""
        task = self._next_task
        self._next_task = (task + 1) % self._num_tasks
        return task


class GreedyLoadBalancingStrategy:
    """Gives each op to the ps task that carries least so far.

    Whether that spreads well depends on the order: small variables before a huge one cannot
    know of it.
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Any], float]) -> None:
        """Makes a strategy.

        Args:
          num_tasks: How many ps tasks there are.
          load_fn: What an op weighs, for example `byte_size_load_fn`.
        """
        self._num_tasks = num_tasks
        self._load_fn = load_fn
        self._ps_loads = [0.0] * num_tasks

    def __call__(self, op: Any) -> int:
        """The task with the least load, the first of several."""
        task = min(range(self._num_tasks), key=self._ps_loads.__getitem__)
        self._ps_loads[task] += self._load_fn(op)
        return task


class RandomStrategy:
    """Spreads ops by a hash of their names: without a pattern, but the same in every worker."""

    def __init__(self, num_ps_tasks: int, seed: int = 0) -> None:
        """Makes a strategy.

        Args:
          num_ps_tasks: How many ps tasks there are.
          seed: Another number, another spread.
        """
        self._num_tasks = num_ps_tasks
        self._seed = seed

    def __call__(self, op: Any) -> int:
        """The task that the op's name hashes to."""
        # Python's own hash differs from process to process.
        digest = hashlib.md5(f"{op.name}_{self._seed}".encode(), usedforsecurity=False)
        return int(digest.hexdigest(), 16) % self._num_tasks


def byte_size_load_fn(op: Any) -> int:
    """The size in bytes of the variable that an op holds.

    Raises:
      ValueError: The op has not one output, or its shape is not known.
    """
    if len(op.outputs) != 1:
        raise ValueError(f"Op {op.name} must have a single output, but has {len(op.outputs)}")
    if op.type == "VarHandleOp":
        # The handle is small wherever it points to: what counts is what it holds.
        dtype, shape = op.get_attr("dtype"), as_shape(op.get_attr("shape"))
    else:
        (output,) = op.outputs
        dtype, shape = output.dtype, output.shape
        if not shape.is_fully_defined():
            shape = as_shape(op.get_attr("shape"))
    if not shape.is_fully_defined():
        raise ValueError(f"Shape {shape} of {op.name} is not fully defined: its size is not known")
    sizes = [int(size or 0) for size in shape.as_list()]
    return math.prod(sizes) * int(dtype.base_dtype.size)


class _ReplicaDeviceChooser:
    """The device function that `replica_device_setter` returns."""

    def __init__(
        self,
        ps_tasks: int,
        ps_device: str,
        worker_device: str,
        merge_devices: bool,
        ps_ops: Sequence[str],
        ps_strategy: Strategy,
    ) -> None:
        self._ps_tasks = ps_tasks
        self._ps_device = ps_device
        self._worker_device = worker_device
        self._merge_devices = merge_devices
        self._ps_ops = frozenset(ps_ops)
        self._ps_strategy = ps_strategy

    def device_function(self, op: Any) -> str:
        """The device of an Operation (or NodeDef), which keeps what it has from inner scopes."""
        if not self._merge_devices and op.device:
            return str(op.device)
        current = DeviceSpec.from_string(op.device or "")
        kind = op.type if hasattr(op, "type") else op.op
        if not (self._ps_tasks and self._ps_device and kind in self._ps_ops):
            return DeviceSpec.from_string(self._worker_device).make_merged_spec(current).to_string()
        ps = DeviceSpec.from_string(self._ps_device)
        if ps.job and current.job in (None, ps.job):
            ps = ps.replace(task=self._ps_strategy(op))
        return ps.make_merged_spec(current).to_string()


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: Strategy | None = None,
) -> Callable[[Any], str] | None:
    """A device function for between-graph replication, to be used with ``tf.device``.

    Devices of inner scopes stay; what they leave open is filled in.

    Args:
      ps_tasks: How many ps tasks there are; not used when `cluster` is given.
      ps_device: The device of the ps job; "" to put nothing there.
      worker_device: The device for everything else.
      merge_devices: Whether to complete devices that are partly given, or to leave them.
      cluster: A ClusterSpec, ClusterDef or dict with the job that `ps_device` names.
      ps_ops: The op types that go to ps tasks; `STANDARD_PS_OPS` when None.
      ps_strategy: A function of an op that returns the index of its ps task; in turn when None.

    Returns:
      A function of an op, or None (which changes nothing) when there are no ps tasks.

    Raises:
      TypeError: `cluster` is not a cluster, or `ps_strategy` cannot be called.
    """
    if cluster is not None:
        spec = cluster if isinstance(cluster, ClusterSpec) else ClusterSpec(cluster)
        job = DeviceSpec.from_string(ps_device).job
        if job not in spec.jobs:
            return None
        ps_tasks = spec.num_tasks(job)
    if ps_tasks == 0:
        return None
    if not merge_devices:
        logging.warning(
            "DEPRECATION: It is recommended to set merge_devices=true in replica_device_setter"
        )
    strategy = RoundRobinStrategy(ps_tasks) if ps_strategy is None else ps_strategy
    if not callable(strategy):
        raise TypeError(f"ps_strategy must be callable, got {strategy!r}")
    chooser = _ReplicaDeviceChooser(
        ps_tasks,
        ps_device or "",
        worker_device or "",
        merge_devices,
        STANDARD_PS_OPS if ps_ops is None else ps_ops,
        strategy,
    )
    return chooser.device_function
