"""Plain gradient descent, with and without a proximal step."""

from __future__ import annotations

from typing import Any

from millrace.graph.convert import convert_to_tensor
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.state import training_ops, variable_slices
from millrace.training.optimizers.optimizer import Optimizer, in_type_of


class GradientDescentOptimizer(Optimizer):
    """``var -= learning_rate * grad``."""

    def __init__(
        self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._learning_rate_tensor: Any = None

    def _prepare(self) -> None:
        self._learning_rate_tensor = convert_to_tensor(
            self._call_if_callable(self._learning_rate), name="learning_rate"
        )

    def _rate(self, var: Any) -> Any:
        return in_type_of(self._learning_rate_tensor, var)

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return training_ops.ApplyGradientDescent(
            var, self._rate(var), grad, use_locking=self._use_locking
        ).op

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return training_ops.ResourceApplyGradientDescent(
            handle.handle, self._rate(handle), grad, use_locking=self._use_locking
        )

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        # Subtracting adds up by itself: repeated positions need no sum before.
        return variable_slices.ScatterSub(
            var, grad.indices, grad.values * self._rate(var), use_locking=self._use_locking
        ).op

    def _resource_apply_sparse_duplicate_indices(
        self, grad: Tensor, handle: Any, indices: Tensor
    ) -> Any:
        return variable_slices.ResourceScatterAdd(
            handle.handle, indices, -grad * self._rate(handle)
        )


class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent, then a step towards zero by L1 and L2."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1 = l1_regularization_strength
        self._l2 = l2_regularization_strength

    def _prepare(self) -> None:
        self._tensors = [
            convert_to_tensor(self._learning_rate, name="learning_rate"),
            convert_to_tensor(self._l1, name="l1_regularization_strength"),
            convert_to_tensor(self._l2, name="l2_regularization_strength"),
        ]

    def _hypers(self, var: Any) -> list[Tensor]:
        return [in_type_of(t, var) for t in self._tensors]

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return training_ops.ApplyProximalGradientDescent(
            var, *self._hypers(var), grad, use_locking=self._use_locking
        ).op

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return training_ops.ResourceApplyProximalGradientDescent(
            handle.handle, *self._hypers(handle), grad, use_locking=self._use_locking
        )

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return training_ops.SparseApplyProximalGradientDescent(
            var, *self._hypers(var), grad.values, grad.indices, use_locking=self._use_locking
        ).op

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return training_ops.ResourceSparseApplyProximalGradientDescent(
            handle.handle, *self._hypers(handle), grad, indices, use_locking=self._use_locking
        )
