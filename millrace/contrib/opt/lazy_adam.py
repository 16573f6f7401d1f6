"""Adam that moves only the rows of an embedding that a step touched."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.ops.state.variable_changes import scatter_sub, scatter_update


class LazyAdamOptimizer(tf.train.AdamOptimizer):
    """`AdamOptimizer`, except for sparse gradients: moments of other rows stay as they are."""

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._rows(grad, handle, indices)

    def _rows(self, grad: Any, var: Any, indices: Any) -> Any:
        kind = var.dtype.base_dtype
        beta1_power, beta2_power = self._get_beta_accumulators()
        rate = tf.cast(self._lr_t, kind) * tf.sqrt(1 - tf.cast(beta2_power, kind)) / (
            1 - tf.cast(beta1_power, kind)
        )  # fmt: skip
        beta1, beta2 = tf.cast(self._beta1_t, kind), tf.cast(self._beta2_t, kind)
        epsilon = tf.cast(self._epsilon_t, kind)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
        step = rate * new_m / (tf.sqrt(new_v) + epsilon)
        return tf.group(
            scatter_update(m, indices, new_m),
            scatter_update(v, indices, new_v),
            scatter_sub(var, indices, step),
        )
