"""Gradient descent with momentum, plain or Nesterov's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.graph.convert import convert_to_tensor
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.state import training_ops
from millrace.training.optimizers.optimizer import Optimizer, in_type_of


class MomentumOptimizer(Optimizer):
    """``accum = momentum * accum + grad; var -= learning_rate * accum``."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._rate = self._learning_rate_tensor = convert_to_tensor(
            self._call_if_callable(self._learning_rate), name="learning_rate"
        )
        self._factor = convert_to_tensor(self._call_if_callable(self._momentum), name="momentum")

    def _slot(self, var: Any) -> Any:
        return self.get_slot(var, "momentum")

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return training_ops.ApplyMomentum(
            var, self._slot(var), in_type_of(self._rate, var), grad, in_type_of(self._factor, var),
            use_locking=self._use_locking, use_nesterov=self._use_nesterov,
        ).op  # fmt: skip

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return training_ops.ResourceApplyMomentum(
            handle.handle, self._slot(handle).handle, in_type_of(self._rate, handle), grad,
            in_type_of(self._factor, handle),
            use_locking=self._use_locking, use_nesterov=self._use_nesterov,
        )  # fmt: skip

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return training_ops.SparseApplyMomentum(
            var, self._slot(var), in_type_of(self._rate, var), grad.values, grad.indices,
            in_type_of(self._factor, var),
            use_locking=self._use_locking, use_nesterov=self._use_nesterov,
        ).op  # fmt: skip

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return training_ops.ResourceSparseApplyMomentum(
            handle.handle, self._slot(handle).handle, in_type_of(self._rate, handle), grad,
            indices, in_type_of(self._factor, handle),
            use_locking=self._use_locking, use_nesterov=self._use_nesterov,
        )  # fmt: skip
