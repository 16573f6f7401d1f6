"""Optimizers around other optimizers, and two that scale or keep their slots differently."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import millrace as tf
from millrace.ops.state.variable_changes import assign, assign_add, assign_sub, scatter_sub


class _Around(tf.train.Optimizer):
    """One that leaves gradients and slots to another."""

    _opt: Any

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """The other optimizer's."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """The other optimizer's."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The other optimizer's."""
        return self._opt.get_slot_names(*args, **kwargs)


class DropStaleGradientOptimizer(_Around):
    """Drops gradients of a model that is more than `staleness` steps old."""

    def __init__(
        self, opt: Any, staleness: int, use_locking: bool = False, name: str = "DropStaleGradient"
    ) -> None:
        super().__init__(use_locking, name)
        self._opt, self._staleness = opt, staleness

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        """The other optimizer's, of a loss that notes the step at which it began."""
        with tf.colocate_with(loss):
            self._local_step = tf.train.get_global_step() + 0
        with tf.control_dependencies([self._local_step]):
            return self._opt.compute_gradients(tf.identity(loss), *args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        """Applies them if they are fresh, and counts them if not."""
        pairs = list(grads_and_vars)
        with tf.colocate_with(global_step):
            counter = tf.get_variable(
                "stale_counter", [], initializer=tf.zeros_initializer(), trainable=False
            )

        def accept() -> Any:
            applied = self._opt.apply_gradients(pairs, global_step=global_step, name=name)
            with tf.control_dependencies([applied]):
                return tf.identity(0.0)

        made = [g if tf.is_tensor(g) and not hasattr(g, "values") else g.op
                for g, _ in pairs if g is not None]  # fmt: skip
        with tf.control_dependencies(made), tf.colocate_with(global_step):
            age = tf.reshape(global_step - self._local_step, [])
        fresh = tf.less_equal(age, tf.cast(self._staleness, age.dtype))
        counted = counter.assign_add(tf.cond(fresh, accept, lambda: tf.identity(1.0)))
        share = counter / tf.cast(global_step + 1, tf.float32)
        tf.summary.scalar("Gradient staleness percentage", share)
        return counted


class VariableClippingOptimizer(_Around):
    """Clips norms of variables after each step, along the dimensions that are given for each."""

    def __init__(
        self, opt: Any, vars_to_clip_dims: dict[Any, Any], max_norm: Any, use_locking: bool = False,
        colocate_clip_ops_with_vars: bool = False, name: str = "VariableClipping",
    ) -> None:  # fmt: skip
        super().__init__(use_locking, name)
        self._opt, self._max_norm = opt, max_norm
        self._vars_to_clip_dims = {v: list(dims) for v, dims in vars_to_clip_dims.items()}
        self._colocate = colocate_clip_ops_with_vars

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        """The other optimizer's step, then the clipping."""
        pairs = list(grads_and_vars)
        with tf.name_scope(name, self._name) as scope:
            applied = self._opt.apply_gradients(pairs, global_step=global_step)
            clipped = []
            with tf.control_dependencies([applied]):
                for grad, var in pairs:
                    if grad is not None and var in self._vars_to_clip_dims:
                        with tf.name_scope(f"clip_{var.op.name}"):
                            clipped.append(self._clip(grad, var))
            return tf.group(applied, *clipped, name=scope)

    def _clip(self, grad: Any, var: Any) -> Any:
        dims = self._vars_to_clip_dims[var]
        rows = isinstance(grad, tf.IndexedSlices)
        if rows and 0 in dims:
            tf.logging.warning(
                f"Clipping norm across dims {dims} for {var.op.name} is inefficient when "
                "including sparse dimension 0."
            )
            rows = False
        near = tf.colocate_with(var) if self._colocate else contextlib.nullcontext()
        with near:
            value = tf.gather(var, grad.indices) if rows else var.read_value()
            excess = value - tf.clip_by_norm(value, self._max_norm, dims)
        with tf.colocate_with(var):
            if rows:
                return scatter_sub(var, grad.indices, excess, use_locking=self._use_locking)
            return assign_sub(var, excess, use_locking=self._use_locking)


def _is_all_zeros(grad: Any) -> Any:
    return tf.equal(tf.count_nonzero(grad), 0)


class MultitaskOptimizerWrapper:
    """Lets an optimizer leave variables alone whose gradient is all zeros: another task's turn."""

    def __init__(self, opt: Any) -> None:
        if not isinstance(opt, tf.train.Optimizer):
            raise TypeError("Supplied optimizer must be an instance of tf.train.Optimizer")
        self._opt: Any = opt
        for name in (
            "_apply_dense",
            "_resource_apply_dense",
            "_apply_sparse",
            "_resource_apply_sparse",
        ):
            setattr(opt, name, types.MethodType(_unless_zero(getattr(opt, name)), opt))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opt, name)


def _unless_zero(apply: Any) -> Any:
    def applied(self: Any, grad: Any, *args: Any, **kwargs: Any) -> Any:
        def change() -> Any:
            with tf.control_dependencies([apply(grad, *args, **kwargs)]):
                return tf.no_op()

        return tf.cond(_is_all_zeros(grad), tf.no_op, change)

    return applied


def _nothing_if_zero(grad: Any) -> Any:
    return tf.cond(_is_all_zeros(grad), lambda: tf.zeros([], grad.dtype), lambda: tf.identity(grad))


def clip_gradients_by_global_norm(
    gradients_variables: Any, clip_norm: float = 20.0
) -> tuple[list[Any], Any]:
    """Gradients clipped by their joint norm, and the norm; zeros do not count."""
    gradients, variables = zip(*gradients_variables, strict=True)
    counted = [None if g is None else _nothing_if_zero(g) for g in gradients]
    norm = tf.global_norm(counted)
    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=norm)
    return list(zip(clipped, variables, strict=True)), norm


class LARSOptimizer(tf.train.Optimizer):
    """Layer-wise adaptive rates (You, Gitman and Ginsburg, 2017), with momentum."""

    def __init__(
        self, learning_rate: Any, momentum: float = 0.9, weight_decay: float = 0.0001,
        eeta: float = 0.001, epsilon: float = 0.0, name: str = "LARSOptimizer",
        skip_list: Any = None, use_nesterov: bool = False,
    ) -> None:  # fmt: skip
        for what, value in (("momentum", momentum), ("weight_decay", weight_decay)):
            if value < 0.0:
                raise ValueError(f"{what} should be positive: {value}")
        super().__init__(False, name)
        self._learning_rate, self._momentum, self._weight_decay = (
            learning_rate,
            momentum,
            weight_decay,
        )
        self._eeta, self._epsilon = eeta, epsilon
        self._skip_list, self._use_nesterov = skip_list, use_nesterov

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def compute_lr(self, grad: Any, var: Any) -> tuple[Any, Any]:
        """The rate of this variable, and the gradient with its weight decay."""
        if any(part in var.name for part in self._skip_list or ()):
            return self._learning_rate, grad
        weight, slope = tf.norm(var, ord=2), tf.norm(grad, ord=2)
        ratio = self._eeta * weight / (slope + self._weight_decay * weight + self._epsilon)
        known = tf.logical_and(tf.greater(weight, 0), tf.greater(slope, 0))
        trust = tf.where(known, ratio, tf.ones_like(ratio))
        return self._learning_rate * trust, grad + self._weight_decay * var

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        rate, grad = self.compute_lr(grad, var)
        kept: Any = self.get_slot(var, "momentum")
        scaled = grad * rate
        moved = assign(kept, kept * self._momentum + scaled)
        step = scaled + self._momentum * moved if self._use_nesterov else moved
        return tf.group(assign_sub(var, step), moved)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._apply_dense(grad, handle)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._apply_dense(tf.convert_to_tensor(grad), var)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._apply_dense(
            tf.convert_to_tensor(tf.IndexedSlices(grad, indices, tf.shape(var))), var
        )


class RegAdagradOptimizer(tf.train.AdagradOptimizer):
    """Adagrad whose sums can be left as they are for a while, by `avoid_updating_slots`."""

    def __init__(
        self, learning_rate: Any, initial_accumulator_value: float = 0.1, use_locking: bool = False,
        name: str = "RegAdagrad",
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)
        self._should_update_slots = True

    @contextlib.contextmanager
    def avoid_updating_slots(self) -> Iterator[None]:
        """Gradients that are applied inside do not count for the rates."""
        before, self._should_update_slots = self._should_update_slots, False
        try:
            yield
        finally:
            self._should_update_slots = before

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        sums: Any = self.get_slot(var, "accumulator")
        rate = tf.cast(self._learning_rate_tensor, var.dtype.base_dtype)
        kept = assign_add(sums, tf.square(grad)) if self._should_update_slots else sums
        return assign_sub(var, rate * grad * tf.math.rsqrt(kept), use_locking=self._use_locking)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._apply_dense(grad, handle)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._apply_dense(tf.convert_to_tensor(grad), var)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._apply_dense(
            tf.convert_to_tensor(tf.IndexedSlices(grad, indices, tf.shape(var))), var
        )
