"""Optimizers near Adam: AdaMax and Nadam; and two that go by signs: PowerSign and AddSign."""

from __future__ import annotations

import math
from typing import Any

import millrace as tf
from millrace.ops.state import training_ops
from millrace.ops.state.variable_changes import assign, scatter_add, scatter_update


class AdaMaxOptimizer(tf.train.AdamOptimizer):
    """Adam with the largest gradient in the place of the mean of squares (Kingma and Ba, 7.1).

    ``u = max(β₂·u, |g|)``; ``var -= lr / (1 - β₁ᵗ) · m / (u + ε)``.
    """

    def __init__(
        self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999,
        epsilon: Any = 1e-8, use_locking: bool = False, name: str = "AdaMax",
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _create_slots(self, var_list: Any) -> None:
        first = min(var_list, key=lambda v: v.name)
        self._create_non_slot_variable(self._beta1, "beta1_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _hyper(self, var: Any) -> tuple[Any, ...]:
        kind = var.dtype.base_dtype
        power = self._get_non_slot_variable("beta1_power")
        rate = tf.cast(self._lr_t, kind) / (1 - tf.cast(power, kind))
        return rate, *(tf.cast(t, kind) for t in (self._beta1_t, self._beta2_t, self._epsilon_t))

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        rate, beta1, beta2, epsilon = self._hyper(var)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = assign(m, beta1 * m + (1 - beta1) * grad, use_locking=self._use_locking)
        new_v = assign(v, tf.maximum(beta2 * v, tf.abs(grad)), use_locking=self._use_locking)
        moved = assign(var, var - rate * new_m / (new_v + epsilon), use_locking=self._use_locking)
        return tf.group(moved, new_m, new_v)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._apply_dense(grad, handle)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._rows(grad, var, indices)

    def _rows(self, grad: Any, var: Any, indices: Any) -> Any:
        """Only the rows that have a gradient change."""
        rate, beta1, beta2, epsilon = self._hyper(var)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = tf.maximum(beta2 * tf.gather(v, indices), tf.abs(grad))
        moves = [scatter_update(m, indices, new_m), scatter_update(v, indices, new_v)]
        moves.append(scatter_add(var, indices, -rate * (new_m / (new_v + epsilon))))
        return tf.group(*moves)

    def _finish(self, update_ops: Any, name_scope: Any) -> Any:
        with tf.control_dependencies(update_ops):
            power: Any = self._get_non_slot_variable("beta1_power")
            with tf.colocate_with(power):
                grown = power.assign(power * self._beta1_t, use_locking=self._use_locking)
        return tf.group(*update_ops, grown, name=name_scope)


class NadamOptimizer(tf.train.AdamOptimizer):
    """Adam with Nesterov's momentum."""

    def _step(self, function: Any, grad: Any, var: Any, *slots: Any) -> Any:
        return function(
            *slots, *self._hypers(var), grad, use_locking=self._use_locking, use_nesterov=True
        )

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        return self._step(training_ops.ApplyAdam, grad, var, var, m, v).op

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        m: Any = self.get_slot(handle, "m")
        v: Any = self.get_slot(handle, "v")
        slots = (handle.handle, m.handle, v.handle)
        return self._step(training_ops.ResourceApplyAdam, grad, handle, *slots)

    def _apply_sparse_shared(self, grad: Any, var: Any, indices: Any) -> Any:
        power1, power2, rate, beta1, beta2, epsilon = self._hypers(var)
        rate = rate * tf.sqrt(1 - power2) / (1 - power1)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        scaled = (1 - beta1) * grad
        with tf.control_dependencies([assign(m, m * beta1, use_locking=self._use_locking)]):
            first = scatter_add(m, indices, scaled, use_locking=self._use_locking)
        ahead = scaled + beta1 * tf.gather(first, indices)
        with tf.control_dependencies([assign(v, v * beta2, use_locking=self._use_locking)]):
            second = scatter_add(
                v, indices, (1 - beta2) * tf.square(grad), use_locking=self._use_locking
            )
        root = tf.sqrt(tf.gather(second, indices))
        step = -rate * ahead / (root + epsilon)
        moved = scatter_add(var, indices, step, use_locking=self._use_locking)
        return tf.group(moved, first, second)


class _SignOptimizer(tf.train.Optimizer):
    """One whose step depends on whether gradient and momentum have the same sign."""

    def __init__(
        self, learning_rate: Any, beta: Any, sign_decay_fn: Any, use_locking: bool, name: str
    ) -> None:
        super().__init__(use_locking, name)
        self._lr, self._beta, self._sign_decay_fn = learning_rate, beta, sign_decay_fn

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        """As every optimizer; the decay of signs is a function of the step."""
        self._sign_decay = tf.constant(1.0)
        if self._sign_decay_fn is not None:
            if global_step is None:
                raise ValueError("global_step is required if sign_decay_fn is not None.")
            self._sign_decay = self._sign_decay_fn(global_step)
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)

    def _agreement(self, grad: Any, var: Any) -> tuple[Any, Any]:
        """The signs of gradient and momentum, multiplied, and the momentum's update."""
        m = self.get_slot(var, "m")
        beta = tf.cast(self._beta, var.dtype.base_dtype)
        new_m = assign(m, m * beta + grad * (1 - beta), use_locking=self._use_locking)
        decay = tf.cast(self._sign_decay, var.dtype.base_dtype)
        return decay * tf.sign(grad) * tf.sign(new_m), new_m

    def _factor(self, agreement: Any) -> Any:
        raise NotImplementedError

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        agreement, new_m = self._agreement(grad, var)
        rate = tf.cast(self._lr() if callable(self._lr) else self._lr, var.dtype.base_dtype)
        moved = assign(
            var, var - rate * self._factor(agreement) * grad, use_locking=self._use_locking
        )
        return tf.group(moved, new_m)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return self._apply_dense(grad, var)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._apply_dense(tf.convert_to_tensor(grad), var)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._apply_dense(
            tf.convert_to_tensor(tf.IndexedSlices(grad, indices, tf.shape(var))), var
        )


class PowerSignOptimizer(_SignOptimizer):
    """``var -= lr · base^(decay · sign(g)·sign(m)) · g``."""

    def __init__(
        self, learning_rate: Any = 0.1, base: float = math.e, beta: float = 0.9,
        sign_decay_fn: Any = None, use_locking: bool = False, name: str = "PowerSignOptimizer",
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._log_base = math.log(base)

    def _factor(self, agreement: Any) -> Any:
        return tf.exp(self._log_base * agreement)


class AddSignOptimizer(_SignOptimizer):
    """``var -= lr · (alpha + decay · sign(g)·sign(m)) · g``."""

    def __init__(
        self, learning_rate: Any = 0.1, alpha: float = 1.0, beta: float = 0.9,
        sign_decay_fn: Any = None, use_locking: bool = False, name: str = "AddSignOptimizer",
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._alpha = alpha

    def _factor(self, agreement: Any) -> Any:
        return self._alpha + agreement
