"""Exponential moving averages of variables and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import (
    add_to_collection,
    colocate_with,
    control_dependencies,
    get_default_graph,
    init_scope,
    name_scope,
)
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.ops.array import cast
from millrace.ops.control_flow import control_flow
from millrace.ops.math import arithmetic
from millrace.ops.state import initializers
from millrace.ops.state.variable import Variable
from millrace.ops.state.variable_changes import assign_sub
from millrace.ops.state.variable_scope import VariableScope, get_variable, variable_scope
from millrace.ops.state.variables import (
    global_variables,
    moving_average_variables,
    trainable_variables,
)
from millrace.training.optimizers import slots


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """Moves `variable` towards `value`: ``variable -= (1 - decay)·(variable - value)``.

    Args:
      variable: The average.
      value: The newest value.
      decay: How much of the average stays.
      zero_debias: Whether the average began at zero and this is made up for.
      name: The name scope.

    Returns:
      What reads the new average.
    """
    with (
        name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope,
        colocate_with(variable),
    ):
        rate = convert_to_tensor(1.0 - decay, name="decay")
        kind = variable.dtype.base_dtype
        if rate.dtype.base_dtype != kind:
            rate = cast.cast(rate, kind)
        if zero_debias:
            delta = _unbiased_delta(variable, value, rate)
        else:
            delta = (variable - value) * rate
        return assign_sub(variable, delta, name=scope)


def _unbiased_delta(variable: Any, value: Any, rate: Any) -> Any:
    """What `variable` is above the average that is corrected for having begun at zero.

    The biased average is kept beside it, with the number of updates: it is too small by the
    factor ``1 - (1 - rate)^updates``.
    """
    with variable_scope(variable.op.name, values=[variable, value, rate]) as scope:
        with init_scope():
            zeros = initializers.Zeros()(variable.shape, variable.dtype.base_dtype)
        biased = get_variable(_unused_name(scope, "biased"), initializer=zeros, trainable=False)
        updates = get_variable(
            _unused_name(scope, "local_step"),
            shape=[],
            dtype=variable.dtype.base_dtype,
            initializer=initializers.Zeros(),
            trainable=False,
        )
        changes = [
            assign_sub(biased, (biased - value) * rate, name=scope.name),
            updates.assign_add(1),
        ]
        with control_dependencies(changes):
            missing = arithmetic.pow(1.0 - rate, updates.read_value())
            return variable - biased.read_value() / (1 - missing)


def _unused_name(scope: VariableScope, name: str) -> str:
    if scope.reuse:
        return name
    taken = {v.op.name for v in scope.global_variables()}
    full, i = f"{scope.name}/{name}", 0
    while (f"{full}_{i}" if i else full) in taken:
        i += 1
    return f"{name}_{i}" if i else name


class ExponentialMovingAverage:
    """Keeps ``average = decay·average + (1 - decay)·value`` of variables or tensors.

    Args:
      decay: Near 1, such as 0.999.
      num_updates: A count of updates; then the decay is at most
        ``(1 + num_updates) / (10 + num_updates)``, so that averages move faster at first.
      zero_debias: Whether averages of tensors, which begin at zero, are corrected for that.
      name: Names the averages: ``w/ExponentialMovingAverage``.
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        #: Averages by variable or tensor.
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        """The name that was given."""
        return self._name

    def apply(self, var_list: Sequence[Any] | None = None) -> Operation:
        """An operation that updates the averages of `var_list` (all trainable when None)."""
        variables = list(trainable_variables() if var_list is None else var_list)
        began_at_zero = set()
        for variable in variables:
            kind = variable.dtype.base_dtype
            if kind not in (dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64):
                raise TypeError(f"The variables must be half, float, or double: {variable.name}")
            if variable in self._averages:
                continue
            with init_scope():
                if isinstance(variable, Variable):
                    first = variable.initialized_value()
                    average = slots.create_slot(variable, first, self._name)
                    add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, variable)
                else:
                    average = slots.create_zeros_slot(
                        variable,
                        self._name,
                        colocate_with_primary=variable.op.type
                        in ("Variable", "VariableV2", "VarHandleOp"),
                    )
                    if self._zero_debias:
                        began_at_zero.add(average)
            self._averages[variable] = average
        with name_scope(self._name) as scope:
            decay: Any = convert_to_tensor(self._decay, dtypes.float32, name="decay")
            if self._num_updates is not None:
                count = cast.cast(self._num_updates, dtypes.float32, name="num_updates")
                decay = arithmetic.minimum(decay, (1.0 + count) / (10.0 + count))
            updates = [
                assign_moving_average(
                    self._averages[v], v, decay, zero_debias=self._averages[v] in began_at_zero
                )
                for v in variables
            ]
            return control_flow.group(*updates, name=scope)

    def average(self, var: Any) -> Any:
        """The variable that holds the average of `var`, or None."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """The name of the variable that holds, or would hold, the average of `var`."""
        if var in self._averages:
            return str(self._averages[var].op.name)
        return get_default_graph().unique_name(f"{var.op.name}/{self._name}", mark_as_used=False)

    def variables_to_restore(
        self, moving_avg_variables: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """Names in a checkpoint by which a Saver restores averages into their variables.

        Args:
          moving_avg_variables: Variables that take their average; when None all trainable
            ones and those that an average was made for.
        """
        if moving_avg_variables is None:
            moving_avg_variables = [*trainable_variables(), *moving_average_variables()]
        averaged = list(dict.fromkeys(moving_avg_variables))
        names = {self.average_name(v): v for v in averaged}
        for v in [*moving_average_variables(), *global_variables()]:
            if v not in averaged and v.op.name not in names:
                names[v.op.name] = v
        return names
