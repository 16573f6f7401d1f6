"""Adam (Kingma and Ba, 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import colocate_with, control_dependencies
from millrace.graph.operation import Operation
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow import control_flow
from millrace.ops.math import elementwise
from millrace.ops.state import training_ops, variable_changes
from millrace.training.optimizers.optimizer import Optimizer, in_type_of


class AdamOptimizer(Optimizer):
    """Steps scaled by running means of the gradient and of its square.

    ``m = beta1*m + (1-beta1)*g``, ``v = beta2*v + (1-beta2)*g**2``,
    ``var -= lr * sqrt(1-beta2**t)/(1-beta1**t) * m / (sqrt(v) + epsilon)``.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        return (
            self._get_non_slot_variable("beta1_power"),
            self._get_non_slot_variable("beta2_power"),
        )

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        # One place for the powers, the same whatever the order of the variables.
        first = min(var_list, key=lambda v: v.name)
        self._create_non_slot_variable(self._beta1, "beta1_power", first)
        self._create_non_slot_variable(self._beta2, "beta2_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        self._lr_t = convert_to_tensor(self._call_if_callable(self._lr), name="learning_rate")
        self._beta1_t = convert_to_tensor(self._call_if_callable(self._beta1), name="beta1")
        self._beta2_t = convert_to_tensor(self._call_if_callable(self._beta2), name="beta2")
        self._epsilon_t = convert_to_tensor(self._call_if_callable(self._epsilon), name="epsilon")

    def _hypers(self, var: Any) -> list[Tensor]:
        powers = self._get_beta_accumulators()
        tensors = [*powers, self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t]
        return [in_type_of(t, var) for t in tensors]

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return training_ops.ApplyAdam(
            var, self.get_slot(var, "m"), self.get_slot(var, "v"), *self._hypers(var), grad,
            use_locking=self._use_locking,
        ).op  # fmt: skip

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        m: Any = self.get_slot(handle, "m")
        v: Any = self.get_slot(handle, "v")
        return training_ops.ResourceApplyAdam(
            handle.handle, m.handle, v.handle, *self._hypers(handle), grad,
            use_locking=self._use_locking,
        )  # fmt: skip

    def _apply_sparse_shared(self, grad: Tensor, var: Any, indices: Tensor) -> Any:
        """The means decay everywhere, and the variable moves everywhere, as in TensorFlow."""
        power1, power2, lr, beta1, beta2, epsilon = self._hypers(var)
        rate: Any = lr * elementwise.sqrt(1 - power2) / (1 - power1)
        m: Any = self.get_slot(var, "m")
        v: Any = self.get_slot(var, "v")
        first = grad * (1 - beta1)
        m_t = variable_changes.assign(m, m * beta1, use_locking=self._use_locking)
        with control_dependencies([m_t]):
            m_t = variable_changes.scatter_add(m, indices, first, use_locking=self._use_locking)
        second = (grad * grad) * (1 - beta2)
        v_t = variable_changes.assign(v, v * beta2, use_locking=self._use_locking)
        with control_dependencies([v_t]):
            v_t = variable_changes.scatter_add(v, indices, second, use_locking=self._use_locking)
        step = rate * m_t / (elementwise.sqrt(v_t) + epsilon)
        update = variable_changes.assign_sub(var, step, use_locking=self._use_locking)
        return control_flow.group(update, m_t, v_t)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return self._apply_sparse_shared(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return self._apply_sparse_shared(grad, handle, indices)

    def _finish(self, update_ops: list[Any], name_scope: str) -> Operation:
        """Advances the powers after all variables have used them."""
        power1, power2 = self._get_beta_accumulators()
        with control_dependencies(update_ops), colocate_with(power1):
            updates = [
                power.assign(power * beta, use_locking=self._use_locking)
                for power, beta in ((power1, self._beta1_t), (power2, self._beta2_t))
            ]
        return control_flow.group(*update_ops, *updates, name=name_scope)
