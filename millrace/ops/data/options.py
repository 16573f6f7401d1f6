"""`tf.data.Options`: what a program may ask of a pipeline's execution.

They are kept, joined and given back; the decisions that they are about (threads, order of passes,
sharding) are Millrace's own.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any


class AutoShardPolicy(enum.IntEnum):
    """How a dataset is divided among workers of a strategy."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class ExternalStatePolicy(enum.Enum):
    """What saving an iterator does about state outside of it."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


class _Settings:
    """Attributes that a program may set; only those that there are."""

    _names: tuple[str, ...] = ()

    def __init__(self) -> None:
        for name in self._names:
            object.__setattr__(self, name, None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names and not name.startswith("_"):
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            getattr(self, name) == getattr(other, name) for name in self._names
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


class ThreadingOptions(_Settings):
    """Threads of a pipeline."""

    _names = ("max_intra_op_parallelism", "private_threadpool_size")


class DistributeOptions(_Settings):
    """How a dataset is divided among workers of a strategy."""

    _names = ("auto_shard_policy", "num_devices")


class OptimizationOptions(_Settings):
    """Rewrites of a pipeline."""

    _names = (
        "apply_default_optimizations",
        "autotune",
        "autotune_buffers",
        "autotune_cpu_budget",
        "filter_fusion",
        "filter_parallelization",
        "filter_with_random_uniform_fusion",
        "hoist_random_uniform",
        "inject_prefetch",
        "map_and_batch_fusion",
        "map_and_filter_fusion",
        "map_fusion",
        "map_parallelization",
        "map_vectorization",
        "noop_elimination",
        "parallel_batch",
        "reorder_data_discarding_ops",
        "seq_interleave_prefetch",
        "shuffle_and_repeat_fusion",
        "warm_start",
    )


class AutotuneOptions(_Settings):
    """Numbers that are found while a pipeline runs."""

    _names = (
        "enabled",
        "cpu_budget",
        "ram_budget",
        "autotune_algorithm",
        "initial_parallelism",
        "min_parallelism",
    )


class Options(_Settings):
    """Options of a dataset."""

    _names = (
        "autotune",
        "dataset_name",
        "deterministic",
        "experimental_deterministic",
        "experimental_distribute",
        "experimental_external_state_policy",
        "experimental_numa_aware",
        "experimental_optimization",
        "experimental_slack",
        "experimental_stats",
        "experimental_threading",
        "experimental_warm_start",
        "framework_type",
        "threading",
    )

    def __init__(self) -> None:
        super().__init__()
        self.autotune = AutotuneOptions()
        self.experimental_distribute = DistributeOptions()
        self.experimental_optimization = OptimizationOptions()
        self.threading = ThreadingOptions()
        self.experimental_threading = self.threading

    def merge(self, options: Options) -> Options:
        """These options, with what the others set."""
        made = merged([self, options])
        assert made is not None
        return made


def merged(several: Iterable[Options | None]) -> Options | None:
    """The options of all, later ones first; None where nobody has any."""
    made: Options | None = None
    for options in several:
        if options is None:
            continue
        if not isinstance(options, Options):
            raise TypeError(f"Expected tf.data.Options, got {type(options).__name__}")
        made = made or Options()
        for name in Options._names:
            value = getattr(options, name)
            if isinstance(value, _Settings):
                target = getattr(made, name)
                for inner in value._names:
                    if getattr(value, inner) is not None:
                        setattr(target, inner, getattr(value, inner))
            elif value is not None:
                setattr(made, name, value)
    return made
