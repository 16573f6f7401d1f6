"""FTRL-proximal (McMahan et al., 2013), with optional L2 shrinkage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.graph.convert import convert_to_tensor
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.math import arithmetic
from millrace.ops.state import training_ops
from millrace.training.optimizers.adagrad import make_constant_slot
from millrace.training.optimizers.optimizer import Optimizer, in_type_of


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader: for sparse linear models with L1 and L2."""

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        super().__init__(use_locking, name)
        for value, label in (
            (initial_accumulator_value, "initial_accumulator_value"),
            (l1_regularization_strength, "l1_regularization_strength"),
            (l2_regularization_strength, "l2_regularization_strength"),
            (l2_shrinkage_regularization_strength, "l2_shrinkage_regularization_strength"),
        ):
            if value < 0.0:
                raise ValueError(f"{label} {value} needs to be greater than or equal to zero")
        if learning_rate_power > 0.0:
            raise ValueError(
                f"learning_rate_power {learning_rate_power} needs to be negative or zero"
            )
        self._learning_rate = learning_rate
        self._learning_rate_power = learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1 = l1_regularization_strength
        self._l2 = l2_regularization_strength
        self._beta = beta
        self._shrinkage = l2_shrinkage_regularization_strength
        self._accum_name = accum_name
        self._linear_name = linear_name

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            make_constant_slot(
                self, var, self._initial_accumulator_value, "accum",
                self._accum_name or self._name,
            )  # fmt: skip
            self._zeros_slot(var, "linear", self._linear_name or self._name)

    def _prepare(self) -> None:
        rate: Any = self._call_if_callable(self._learning_rate)
        l2: Any = self._l2
        if self._beta:
            # In the published form, beta joins the L2 term divided by twice the rate.
            l2 = l2 + self._beta / (2.0 * arithmetic.maximum(rate, 1e-36))
        named = [
            (rate, "learning_rate"),
            (self._l1, "l1_regularization_strength"),
            (l2, "l2_regularization_strength"),
        ]
        if self._shrinkage > 0:
            named.append((self._shrinkage, "l2_shrinkage_regularization_strength"))
        named.append((self._learning_rate_power, "learning_rate_power"))
        self._tensors = [convert_to_tensor(value, name=name) for value, name in named]

    def _slots_of(self, var: Any) -> list[Any]:
        return [self.get_slot(var, "accum"), self.get_slot(var, "linear")]

    def _hypers(self, var: Any) -> list[Tensor]:
        return [in_type_of(t, var) for t in self._tensors]

    def _op(self, prefix: str) -> Any:
        return getattr(training_ops, f"{prefix}Ftrl{'V2' if self._shrinkage > 0 else ''}")

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return self._op("Apply")(
            var, *self._slots_of(var), grad, *self._hypers(var), use_locking=self._use_locking
        ).op

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return self._op("ResourceApply")(
            handle.handle, *(s.handle for s in self._slots_of(handle)), grad,
            *self._hypers(handle), use_locking=self._use_locking,
        )  # fmt: skip

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return self._op("SparseApply")(
            var, *self._slots_of(var), grad.values, grad.indices, *self._hypers(var),
            use_locking=self._use_locking,
        ).op  # fmt: skip

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return self._op("ResourceSparseApply")(
            handle.handle, *(s.handle for s in self._slots_of(handle)), grad, indices,
            *self._hypers(handle), use_locking=self._use_locking,
        )  # fmt: skip
