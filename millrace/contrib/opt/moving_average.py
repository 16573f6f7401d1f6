"""An optimizer that keeps moving averages, and a saver that saves them instead."""

from __future__ import annotations

from typing import Any

import millrace as tf


class MovingAverageOptimizer(tf.train.Optimizer):
    """Another optimizer, after whose steps the averages of the variables move."""

    def __init__(
        self, opt: Any, average_decay: float = 0.9999, num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(use_locking=False, name="MovingAverage")
        self._optimizer = opt
        self._ema = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential = sequential_update
        self._swapped_names: dict[str, str] | None = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """The other optimizer's."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        """The other optimizer's step, then the averages."""
        pairs = list(grads_and_vars)
        applied = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        variables = [v for g, v in pairs if g is not None]
        before = [applied] if self._sequential else []
        with tf.control_dependencies(before):
            moved = self._ema.apply(variables)
        self._swapped_names = {v.op.name: self._ema.average_name(v) for v in variables}
        self._averages = {v.op.name: self._ema.average(v) for v in variables}
        return tf.group(applied, moved, name="train_with_avg")

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
    ) -> Any:
        """A saver that saves averages under the variables' names, and the other way round.

        Raises:
          RuntimeError: There are no averages yet.
        """
        if self._swapped_names is None:
            raise RuntimeError("Must call apply_gradients or minimize before swapping_saver")
        named = dict(var_list) if isinstance(var_list, dict) else {
            v.op.name: v for v in (var_list or tf.global_variables())
        }  # fmt: skip
        result = dict(named)
        for own, average in self._swapped_names.items():
            if own in named:
                result[own], result[average] = self._averages[own], named[own]
        return tf.train.Saver(result, name=name, **kwargs)
