"""Optimizers around another one, whose names, slots and updates they have."""

from __future__ import annotations

from typing import Any

import millrace as tf


class WrappedOptimizer(tf.train.Optimizer):
    """Does what the optimizer inside does; a base class."""

    def __init__(self, opt: Any, name: str) -> None:
        """Takes the optimizer."""
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer inside."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """As of the optimizer inside."""
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer inside."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer inside."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """As of the optimizer inside."""
        return self._opt.variables()


class ClippingOptimizer(WrappedOptimizer):
    """Clips all gradients by their common norm before they are applied."""

    def __init__(self, opt: Any, clip_norm: float) -> None:
        """Takes the optimizer and the largest norm."""
        super().__init__(opt, "ClipByNorm" + opt.get_name())
        self._clip_norm = clip_norm

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Clips, then applies."""
        gradients, variables = zip(*grads_and_vars, strict=True)
        clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        return super().apply_gradients(
            list(zip(clipped, variables, strict=True)), global_step, name
        )
