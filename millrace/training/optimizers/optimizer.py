"""The base class of optimizers: gradients of a loss, applied to variables.

A subclass says which slots it keeps and how one gradient changes one variable
(`_apply_dense`, `_apply_sparse` and their resource forms); everything else is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import (
    colocate_with,
    control_dependencies,
    get_collection,
    get_collection_ref,
    get_default_graph,
    init_scope,
    name_scope,
)
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import sets as array_sets
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import control_flow
from millrace.ops.functions import gradients
from millrace.ops.math import segment
from millrace.ops.state import variable_changes
from millrace.ops.state.variable import Variable
from millrace.training.optimizers import slots


def deduplicate_indexed_slices(values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Slices with the sums for positions that occur several times, each position once."""
    unique, places = array_sets.unique(indices)
    summed = segment.unsorted_segment_sum(values, places, array_shape.shape(unique)[0])
    return summed, unique


class Optimizer:
    """Applies gradients to variables; see `minimize`.

    Attributes:
      GATE_NONE: Gradients are used as soon as they are there.
      GATE_OP: All gradients of an op are computed before any is used.
      GATE_GRAPH: All gradients are computed before any is used.
    """

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        #: Slot variables by slot name and variable.
        self._slots: dict[str, dict[Any, Variable]] = {}
        self._non_slots: dict[tuple[str, Any], Variable] = {}

    def get_name(self) -> str:
        """The optimizer's name."""
        return self._name

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """An operation that changes the variables so that `loss` becomes smaller.

        Args:
          loss: What to minimize.
          global_step: A variable to count up by one with each application.
          var_list: Variables to change; all trainable ones when None.
          gate_gradients: GATE_NONE, GATE_OP or GATE_GRAPH.
          aggregation_method: How gradients that meet are added.
          colocate_gradients_with_ops: Whether gradient ops go where their ops are.
          name: Name of the returned operation.
          grad_loss: A gradient to begin with instead of ones.
        """
        pairs = self.compute_gradients(
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        if not any(grad is not None for grad, _ in pairs):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not "
                f"support gradients, between variables {[str(v) for _, v in pairs]} and loss "
                f"{loss}."
            )
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """(gradient, variable) pairs; a gradient is None where the loss does not depend on it."""
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, "
                f"Optimizer.GATE_GRAPH. Not {gate_gradients}"
            )
        loss = self._call_if_callable(loss)
        self._check_types([loss])
        if grad_loss is not None:
            self._check_types([grad_loss])
        if var_list is None:
            var_list = get_collection(GraphKeys.TRAINABLE_VARIABLES) + get_collection(
                "trainable_resource_variables"
            )
        else:
            var_list = list(var_list) if isinstance(var_list, list | tuple) else [var_list]
        var_list = _flat_variables(var_list)
        if not var_list:
            raise ValueError("No variables to optimize.")
        grads = gradients.gradients(
            loss,
            [_gradient_target(v) for v in var_list],
            grad_ys=grad_loss,
            gate_gradients=gate_gradients == self.GATE_OP,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == self.GATE_GRAPH:
            grads = control_flow.tuple(grads)
        pairs = list(zip(grads, var_list, strict=True))
        self._check_types([v for g, v in pairs if g is not None and v.dtype != dtypes.resource])
        return pairs

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Operation:
        """An operation that applies gradients to variables.

        Args:
          grads_and_vars: Pairs as `compute_gradients` gives them.
          global_step: A variable to count up by one afterwards.
          name: Name of the operation.

        Raises:
          TypeError: A gradient is no tensor, IndexedSlices or None.
          ValueError: No variable has a gradient.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("No variables provided.")
        converted = []
        for grad, variable in pairs:
            if grad is not None and not isinstance(grad, Tensor | IndexedSlices):
                try:
                    grad = convert_to_tensor(grad)
                except TypeError:
                    raise TypeError(
                        "Gradient must be convertible to a Tensor or IndexedSlices, or None: "
                        f"{grad}"
                    ) from None
            converted.append((grad, variable))
        variables = [v for g, v in converted if g is not None]
        if not variables:
            raise ValueError(
                f"No gradients provided for any variable: {[str(v) for _, v in converted]}."
            )
        with init_scope():
            self._create_slots(variables)
        updates = []
        with name_scope(name, self._name) as scope:
            self._prepare()
            for grad, variable in converted:
                if grad is None:
                    continue
                with name_scope(f"update_{variable.op.name}"), colocate_with(variable):
                    updates.append(self._update(grad, variable))
            if global_step is None:
                applied = self._finish(updates, scope)
            else:
                with (
                    control_dependencies([self._finish(updates, "update")]),
                    colocate_with(global_step),
                ):
                    if isinstance(global_step, Variable):
                        applied = global_step.assign_add(1, name=scope, read_value=False)
                    else:
                        applied = variable_changes.assign_add(global_step, 1, name=scope).op
        train_ops = get_collection_ref(GraphKeys.TRAIN_OP)
        if applied not in train_ops:
            train_ops.append(applied)
        return applied

    def _update(self, grad: Any, variable: Any) -> Any:
        """The op that applies one gradient, of the right form."""
        is_resource = getattr(variable, "handle", None) is not None
        if isinstance(grad, IndexedSlices):
            if getattr(variable, "constraint", None) is not None:
                raise RuntimeError("Cannot use a constraint function on a sparse variable.")
            if is_resource:
                return self._resource_apply_sparse_duplicate_indices(
                    grad.values, variable, grad.indices
                )
            return self._apply_sparse_duplicate_indices(grad, variable)
        if is_resource:
            update = self._resource_apply_dense(grad, variable)
        else:
            update = self._apply_dense(grad, variable)
        constraint = getattr(variable, "constraint", None)
        if constraint is not None:
            with control_dependencies([update]):
                return variable.assign(constraint(variable))
        return update

    # -- Slots ---------------------------------------------------------------------------

    def get_slot(self, var: Any, name: str) -> Variable | None:
        """The slot called `name` that goes with `var`, or None."""
        return self._slots.get(name, {}).get(_key(var))

    def get_slot_names(self) -> list[str]:
        """The names of the slots."""
        return sorted(self._slots)

    def variables(self) -> list[Variable]:
        """All variables that the optimizer made in the default graph."""
        graph = get_default_graph()
        found = [v for v in self._non_slots.values() if v.graph is graph]
        found += [v for named in self._slots.values() for v in named.values()]
        return sorted((v for v in found if v.graph is graph), key=lambda v: v.name)

    def _slot_dict(self, slot_name: str) -> dict[Any, Variable]:
        return self._slots.setdefault(slot_name, {})

    def _get_or_make_slot(self, var: Any, val: Any, slot_name: str, op_name: str) -> Variable:
        named = self._slot_dict(slot_name)
        if _key(var) not in named:
            named[_key(var)] = slots.create_slot(var, val, op_name)
        return named[_key(var)]

    def _get_or_make_slot_with_initializer(
        self, var: Any, initializer: Any, shape: Any, dtype: Any, slot_name: str, op_name: str
    ) -> Variable:
        named = self._slot_dict(slot_name)
        if _key(var) not in named:
            named[_key(var)] = slots.create_slot_with_initializer(
                var, initializer, shape, dtype, op_name
            )
        return named[_key(var)]

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Variable:
        named = self._slot_dict(slot_name)
        if _key(var) not in named:
            named[_key(var)] = slots.create_zeros_slot(var, op_name)
        return named[_key(var)]

    def _create_non_slot_variable(
        self, initial_value: Any, name: str, colocate_with: Any
    ) -> Variable:
        """A variable of the optimizer's own, on the device of another one."""
        key = (name, get_default_graph())
        found = self._non_slots.get(key)
        if found is None:
            with get_default_graph().colocate_with(colocate_with):
                found = Variable(
                    initial_value,
                    name=name,
                    trainable=False,
                    use_resource=getattr(colocate_with, "handle", None) is not None,
                )
            self._non_slots[key] = found
        return found

    def _get_non_slot_variable(self, name: str, graph: Any = None) -> Variable | None:
        return self._non_slots.get((name, graph if graph is not None else get_default_graph()))

    # -- What subclasses say -------------------------------------------------------------

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        """Makes all slots that the variables need."""

    def _prepare(self) -> None:
        """Turns hyper-parameters into tensors."""

    def _finish(self, update_ops: list[Any], name_scope: str) -> Operation:
        """Joins all updates (and what must follow them) into one operation."""
        return control_flow.group(*update_ops, name=name_scope)

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        """The op that applies a dense gradient to a reference variable."""
        raise NotImplementedError

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        """The op that applies a dense gradient to a resource variable."""
        raise NotImplementedError

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        """The op that applies slices with unique positions to a reference variable."""
        raise NotImplementedError

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        """The op that applies slices with unique positions to a resource variable."""
        raise NotImplementedError

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        """As `_apply_sparse`, but positions may repeat: their slices are added first."""
        summed, unique = deduplicate_indexed_slices(grad.values, grad.indices)
        return self._apply_sparse(IndexedSlices(summed, unique, grad.dense_shape), var)

    def _resource_apply_sparse_duplicate_indices(
        self, grad: Tensor, handle: Any, indices: Tensor
    ) -> Any:
        """As `_resource_apply_sparse`, but positions may repeat."""
        summed, unique = deduplicate_indexed_slices(grad, indices)
        return self._resource_apply_sparse(summed, handle, unique)

    def _assert_valid_dtypes(self, tensors: Any) -> None:
        """Raises a ValueError if a tensor's type is not one of `_valid_dtypes`."""
        for each in tensors:
            if each.dtype.base_dtype not in self._valid_dtypes():
                raise ValueError(
                    f"Invalid type {each.dtype!r} for {each.name}, expected: "
                    f"{[dtype.name for dtype in self._valid_dtypes()]}."
                )

    def _valid_dtypes(self) -> set[dtypes.DType]:
        """Types that losses and variables may have."""
        return {
            dtypes.float16,
            dtypes.bfloat16,
            dtypes.float32,
            dtypes.float64,
            dtypes.complex64,
            dtypes.complex128,
        }

    def _check_types(self, tensors: Sequence[Any]) -> None:
        valid = self._valid_dtypes()
        for tensor in tensors:
            kind = tensor.dtype.base_dtype
            if kind not in valid:
                raise ValueError(
                    f"Invalid type {kind!r} for {tensor.name}, expected: "
                    f"{sorted(valid, key=lambda d: d.name)}."
                )

    def _call_if_callable(self, param: Any) -> Any:
        """`param`, or what it returns when it is a function."""
        return param() if callable(param) else param


def _key(variable: Any) -> tuple[Any, str]:
    """What slots are found by: also by another object for the same variable."""
    return variable.op.graph, variable.op.name


def _gradient_target(variable: Any) -> Any:
    handle = getattr(variable, "handle", None)
    return handle if isinstance(handle, Tensor) else variable


def _flat_variables(variables: Sequence[Any]) -> list[Any]:
    """Variables, with the slices of partitioned ones in their place."""
    flat: list[Any] = []
    for variable in variables:
        if hasattr(variable, "_get_variable_list"):
            flat.extend(variable._get_variable_list())
        elif hasattr(variable, "as_tensor") and hasattr(variable, "__iter__"):
            flat.extend(variable)
        else:
            flat.append(variable)
    return flat


def in_type_of(value: Any, variable: Any) -> Any:
    """A hyper-parameter (a tensor or variable) in the type of the variable."""
    kind = variable.dtype.base_dtype
    return value if value.dtype.base_dtype == kind else cast.cast(value, kind)
