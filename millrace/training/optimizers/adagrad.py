"""Adagrad, its proximal form, and Adagrad with dual averaging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import colocate_with
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.array import shape as array_shape
from millrace.ops.state import initializers, training_ops
from millrace.training.optimizers.optimizer import Optimizer, in_type_of


def make_constant_slot(
    optimizer: Optimizer, var: Any, value: float, slot_name: str, op_name: str
) -> None:
    """A slot in the shape of `var` whose entries all begin with `value`."""
    kind = var.dtype.base_dtype
    if var.shape.is_fully_defined():
        initializer = (
            initializers.ones_initializer(dtype=kind)
            if value == 1.0
            else initializers.constant_initializer(value, dtype=kind)
        )
        optimizer._get_or_make_slot_with_initializer(
            var, initializer, var.shape, kind, slot_name, op_name
        )
        return
    first = array_fill.fill(array_shape.shape(var.initialized_value()), cast.cast(value, kind))
    optimizer._get_or_make_slot(var, first, slot_name, op_name)


class AdagradOptimizer(Optimizer):
    """``accum += grad**2; var -= learning_rate * grad / sqrt(accum)``."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive: {initial_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            make_constant_slot(
                self, var, self._initial_accumulator_value, "accumulator", self._name
            )

    def _prepare(self) -> None:
        self._rate = self._learning_rate_tensor = convert_to_tensor(
            self._call_if_callable(self._learning_rate), name="learning_rate"
        )

    def _slot(self, var: Any) -> Any:
        return self.get_slot(var, "accumulator")

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return training_ops.ApplyAdagrad(
            var, self._slot(var), in_type_of(self._rate, var), grad,
            use_locking=self._use_locking,
        ).op  # fmt: skip

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return training_ops.ResourceApplyAdagrad(
            handle.handle, self._slot(handle).handle, in_type_of(self._rate, handle), grad,
            use_locking=self._use_locking,
        )  # fmt: skip

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return training_ops.SparseApplyAdagrad(
            var, self._slot(var), in_type_of(self._rate, var), grad.values, grad.indices,
            use_locking=self._use_locking,
        ).op  # fmt: skip

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return training_ops.ResourceSparseApplyAdagrad(
            handle.handle, self._slot(handle).handle, in_type_of(self._rate, handle), grad,
            indices, use_locking=self._use_locking,
        )  # fmt: skip


class ProximalAdagradOptimizer(Optimizer):
    """Adagrad, then a step towards zero by L1 and L2."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive: {initial_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._l1 = l1_regularization_strength
        self._l2 = l2_regularization_strength

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            make_constant_slot(
                self, var, self._initial_accumulator_value, "accumulator", self._name
            )

    def _prepare(self) -> None:
        self._tensors = [
            convert_to_tensor(self._learning_rate, name="learning_rate"),
            convert_to_tensor(self._l1, name="l1_regularization_strength"),
            convert_to_tensor(self._l2, name="l2_regularization_strength"),
        ]

    def _hypers(self, var: Any) -> list[Tensor]:
        return [in_type_of(t, var) for t in self._tensors]

    def _slot(self, var: Any) -> Any:
        return self.get_slot(var, "accumulator")

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return training_ops.ApplyProximalAdagrad(
            var, self._slot(var), *self._hypers(var), grad, use_locking=self._use_locking
        ).op

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return training_ops.ResourceApplyProximalAdagrad(
            handle.handle, self._slot(handle).handle, *self._hypers(handle), grad,
            use_locking=self._use_locking,
        )  # fmt: skip

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return training_ops.SparseApplyProximalAdagrad(
            var, self._slot(var), *self._hypers(var), grad.values, grad.indices,
            use_locking=self._use_locking,
        ).op  # fmt: skip

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return training_ops.ResourceSparseApplyProximalAdagrad(
            handle.handle, self._slot(handle).handle, *self._hypers(handle), grad, indices,
            use_locking=self._use_locking,
        )  # fmt: skip


class AdagradDAOptimizer(Optimizer):
    """Adagrad with dual averaging: sparse linear models with L1."""

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError(
                "initial_gradient_squared_accumulator_value must be positive: "
                f"{initial_gradient_squared_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial = initial_gradient_squared_accumulator_value
        self._l1 = l1_regularization_strength
        self._l2 = l2_regularization_strength
        self._global_step = global_step

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "gradient_accumulator", self._name)
            make_constant_slot(self, var, self._initial, "gradient_squared_accumulator", self._name)

    def _prepare(self) -> None:
        self._rate = convert_to_tensor(self._learning_rate, name="learning_rate")
        with colocate_with(self._rate):
            # The update of this step counts already.
            self._step = array_identity.identity(self._global_step) + 1

    def _inputs(self, var: Any) -> tuple[Any, Any, list[Any]]:
        hypers = [
            in_type_of(self._rate, var),
            cast.cast(self._l1, var.dtype.base_dtype),
            cast.cast(self._l2, var.dtype.base_dtype),
            cast.cast(self._step, dtypes.int64),
        ]
        return (
            self.get_slot(var, "gradient_accumulator"),
            self.get_slot(var, "gradient_squared_accumulator"),
            hypers,
        )

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        total, squared, hypers = self._inputs(var)
        return training_ops.ApplyAdagradDA(
            var, total, squared, grad, *hypers, use_locking=self._use_locking
        ).op

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        total, squared, hypers = self._inputs(handle)
        return training_ops.ResourceApplyAdagradDA(
            handle.handle, total.handle, squared.handle, grad, *hypers,
            use_locking=self._use_locking,
        )  # fmt: skip

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        total, squared, hypers = self._inputs(var)
        return training_ops.SparseApplyAdagradDA(
            var, total, squared, grad.values, grad.indices, *hypers,
            use_locking=self._use_locking,
        ).op  # fmt: skip

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        total, squared, hypers = self._inputs(handle)
        return training_ops.ResourceSparseApplyAdagradDA(
            handle.handle, total.handle, squared.handle, grad, indices, *hypers,
            use_locking=self._use_locking,
        )  # fmt: skip
