"""RMSProp, plain and centered, and Adadelta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.graph.convert import convert_to_tensor
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.state import training_ops
from millrace.training.optimizers.adagrad import make_constant_slot
from millrace.training.optimizers.optimizer import Optimizer, in_type_of


class RMSPropOptimizer(Optimizer):
    """Steps divided by a running root mean square of the gradient.

    ``ms = decay*ms + (1-decay)*g**2``, ``mom = momentum*mom + lr*g/sqrt(ms - mg**2 + epsilon)``,
    ``var -= mom``; `mg`, the running mean, is kept only when centered.
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._decay = decay
        self._momentum = momentum
        self._epsilon = epsilon
        self._centered = centered

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            make_constant_slot(self, var, 1.0, "rms", self._name)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._tensors = [
            convert_to_tensor(self._call_if_callable(value), name=name)
            for value, name in (
                (self._learning_rate, "learning_rate"),
                (self._decay, "decay"),
                (self._momentum, "momentum"),
                (self._epsilon, "epsilon"),
            )
        ]

    def _slots_of(self, var: Any) -> list[Any]:
        names = ("mg", "rms", "momentum") if self._centered else ("rms", "momentum")
        return [self.get_slot(var, name) for name in names]

    def _hypers(self, var: Any) -> list[Tensor]:
        return [in_type_of(t, var) for t in self._tensors]

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        apply = training_ops.ApplyCenteredRMSProp if self._centered else training_ops.ApplyRMSProp
        return apply(
            var, *self._slots_of(var), *self._hypers(var), grad, use_locking=self._use_locking
        ).op

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        apply = (
            training_ops.ResourceApplyCenteredRMSProp
            if self._centered
            else training_ops.ResourceApplyRMSProp
        )
        return apply(
            handle.handle, *(s.handle for s in self._slots_of(handle)), *self._hypers(handle),
            grad, use_locking=self._use_locking,
        )  # fmt: skip

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        apply = (
            training_ops.SparseApplyCenteredRMSProp
            if self._centered
            else training_ops.SparseApplyRMSProp
        )
        return apply(
            var, *self._slots_of(var), *self._hypers(var), grad.values, grad.indices,
            use_locking=self._use_locking,
        ).op  # fmt: skip

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        apply = (
            training_ops.ResourceSparseApplyCenteredRMSProp
            if self._centered
            else training_ops.ResourceSparseApplyRMSProp
        )
        return apply(
            handle.handle, *(s.handle for s in self._slots_of(handle)), *self._hypers(handle),
            grad, indices, use_locking=self._use_locking,
        )  # fmt: skip


class AdadeltaOptimizer(Optimizer):
    """Steps scaled by the ratio of running mean squares of updates and gradients."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._rho = rho
        self._epsilon = epsilon

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "accum", self._name)
            self._zeros_slot(var, "accum_update", self._name)

    def _prepare(self) -> None:
        self._tensors = [
            convert_to_tensor(self._call_if_callable(value), name=name)
            for value, name in ((self._lr, "lr"), (self._rho, "rho"), (self._epsilon, "epsilon"))
        ]

    def _slots_of(self, var: Any) -> list[Any]:
        return [self.get_slot(var, "accum"), self.get_slot(var, "accum_update")]

    def _hypers(self, var: Any) -> list[Tensor]:
        return [in_type_of(t, var) for t in self._tensors]

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return training_ops.ApplyAdadelta(
            var, *self._slots_of(var), *self._hypers(var), grad, use_locking=self._use_locking
        ).op

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return training_ops.ResourceApplyAdadelta(
            handle.handle, *(s.handle for s in self._slots_of(handle)), *self._hypers(handle),
            grad, use_locking=self._use_locking,
        )  # fmt: skip

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return training_ops.SparseApplyAdadelta(
            var, *self._slots_of(var), *self._hypers(var), grad.values, grad.indices,
            use_locking=self._use_locking,
        ).op  # fmt: skip

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return training_ops.ResourceSparseApplyAdadelta(
            handle.handle, *(s.handle for s in self._slots_of(handle)), *self._hypers(handle),
            grad, indices, use_locking=self._use_locking,
        )  # fmt: skip
