"""Weight decay apart from the gradient (Loshchilov and Hutter, 2017)."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.ops.state.variable_changes import assign_sub


class DecoupledWeightDecayExtension:
    """Mixed into an optimizer: variables shrink by `weight_decay` before each update."""

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        self._weight_decay = weight_decay
        self._decay_var_list: Any = None
        super().__init__(**kwargs)

    def minimize(self, loss: Any, *args: Any, decay_var_list: Any = None, **kwargs: Any) -> Any:
        """One step; only the variables of `decay_var_list` decay, if there is one."""
        self._decay_var_list = None if decay_var_list is None else set(decay_var_list)
        return super().minimize(loss, *args, **kwargs)  # type: ignore[misc]

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None,
        decay_var_list: Any = None,
    ) -> Any:  # fmt: skip
        """Decay, then the update."""
        if decay_var_list is not None:
            self._decay_var_list = set(decay_var_list)
        pairs = list(grads_and_vars)
        rate = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        decays = [
            assign_sub(v, tf.cast(rate, v.dtype.base_dtype) * v).op
            for g, v in pairs
            if g is not None and (self._decay_var_list is None or v in self._decay_var_list)
        ]
        with tf.control_dependencies(decays):
            return super().apply_gradients(pairs, global_step, name)  # type: ignore[misc]


def extend_with_decoupled_weight_decay(base_optimizer: Any) -> Any:
    """A class that is `base_optimizer` with weight decay; its first argument is the decay."""

    class WithDecay(DecoupledWeightDecayExtension, base_optimizer):  # type: ignore[misc]
        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
            self._weight_decay = weight_decay
            self._decay_var_list = None
            base_optimizer.__init__(self, *args, **kwargs)

    WithDecay.__name__ = WithDecay.__qualname__ = f"{base_optimizer.__name__}WithDecay"
    return WithDecay


class AdamWOptimizer(DecoupledWeightDecayExtension, tf.train.AdamOptimizer):
    """Adam with weight decay."""

    def __init__(
        self, weight_decay: Any, learning_rate: Any = 0.001, beta1: float = 0.9,
        beta2: float = 0.999, epsilon: float = 1e-8, use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:  # fmt: skip
        super().__init__(
            weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon,
            use_locking=use_locking, name=name,
        )  # fmt: skip


class MomentumWOptimizer(DecoupledWeightDecayExtension, tf.train.MomentumOptimizer):
    """Momentum with weight decay."""

    def __init__(
        self, weight_decay: Any, learning_rate: Any, momentum: Any, use_locking: bool = False,
        name: str = "MomentumW", use_nesterov: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            weight_decay, learning_rate=learning_rate, momentum=momentum, use_locking=use_locking,
            name=name, use_nesterov=use_nesterov,
        )  # fmt: skip
