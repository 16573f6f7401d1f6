"""`CrossShardOptimizer`: sums gradients over the cores of a TPU; on CPUs there is one."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.estimator.wrapped_optimizer import WrappedOptimizer


class CrossShardOptimizer(WrappedOptimizer):
    """An optimizer around another one, with its names, slots and updates.

    Raises:
      TypeError: `opt` is no optimizer.
    """

    def __init__(
        self, opt: Any, reduction: Any = "mean", name: str = "CrossShardOptimizer", **_: Any
    ) -> None:
        if not isinstance(opt, tf.train.Optimizer):
            raise TypeError(
                "CrossShardOptimizer only works with tf.training.Optimizer and not Optimizer_v2. "
                "If you are using TPUStrategy, OptimizerV2 will sum gradients across replicas."
            )
        super().__init__(opt, name)
