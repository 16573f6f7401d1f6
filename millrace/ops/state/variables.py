"""The variables of a graph as a whole: collections, initialisation, who is missing a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorboard.compat.proto import variable_pb2

from millrace.graph import registry
from millrace.graph.collection_protos import register_proto_function
from millrace.graph.defaults import device, get_collection, get_default_graph, name_scope
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.array import constant
from millrace.ops.array import join as array_join
from millrace.ops.array import select as array_select
from millrace.ops.control_flow import control_flow
from millrace.ops.math import comparison
from millrace.ops.state import variable_ops
from millrace.ops.state.partitioned_variable import PartitionedVariable
from millrace.ops.state.variable import (
    Variable,
    VariableAggregation,
    VariableSynchronization,
    variable_creator_scope,
)
from millrace.ops.state.variable_changes import *  # noqa: F403
from millrace.ops.state.variable_changes import __all__ as _CHANGES

__all__ = [
    *_CHANGES,
    "PartitionedVariable",
    "Variable",
    "VariableAggregation",
    "VariableSynchronization",
    "all_variables",
    "assert_variables_initialized",
    "global_variables",
    "global_variables_initializer",
    "initialize_all_variables",
    "initialize_local_variables",
    "initialize_variables",
    "is_variable_initialized",
    "local_variables",
    "local_variables_initializer",
    "model_variables",
    "moving_average_variables",
    "report_uninitialized_variables",
    "trainable_variables",
    "variable_creator_scope",
    "variables_initializer",
]


def global_variables(scope: str | None = None) -> list[Any]:
    """Variables that are shared and saved; those whose name begins with `scope`."""
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def all_variables() -> list[Any]:
    """The old name of `global_variables`."""
    return global_variables()


def local_variables(scope: str | None = None) -> list[Any]:
    """Variables of one process: counters of metrics, epochs of input."""
    return get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Any]:
    """Variables that inference needs."""
    return get_collection(GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Variables that optimizers train."""
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Variables that have a moving average."""
    return get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Operation:
    """An operation that runs the initialisers of all of `var_list`."""
    result: Operation = control_flow.group(*[v.initializer for v in var_list], name=name)
    return result


def global_variables_initializer() -> Operation:
    """An operation that initialises all global variables."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """An operation that initialises all local variables."""
    return variables_initializer(local_variables())


def initialize_variables(var_list: Sequence[Any], name: str = "init") -> Operation:
    """The old name of `variables_initializer`."""
    return variables_initializer(var_list, name)


def initialize_all_variables() -> Operation:
    """The old name of `global_variables_initializer`."""
    return global_variables_initializer()


def initialize_local_variables() -> Operation:
    """The old name of `local_variables_initializer`."""
    return local_variables_initializer()


def is_variable_initialized(variable: Any, name: str | None = None) -> Tensor:
    """Whether the variable (or what a reference tensor refers to) has a value."""
    if isinstance(variable, Variable):
        return variable._is_initialized(name)
    result: Tensor = variable_ops.IsVariableInitialized(variable, name=name)
    return result


def assert_variables_initialized(var_list: Sequence[Any] | None = None) -> Tensor | None:
    """A tensor whose evaluation fails with FailedPreconditionError unless all have values."""
    variables = _variables_or_all(var_list)
    if not variables:
        return None
    # A caller that asks for a rank reads the value, and that is what fails.
    rank: Any = registry.lookup("Rank")
    ranks = []
    for variable in variables:
        with get_default_graph().colocate_with(variable.op):
            ranks.append(rank(variable))
    return ranks[0] if len(ranks) == 1 else array_join.stack(ranks)


def report_uninitialized_variables(
    var_list: Sequence[Any] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """The names of those of `var_list` that have no value, as a vector of strings.

    Args:
      var_list: Variables; all global and local ones when None.
      name: The name scope.
    """
    variables = _variables_or_all(var_list)
    with name_scope(name):
        known = [is_variable_initialized(v) for v in variables]
        with device("/cpu:0"):
            if not variables:
                return constant.constant([], dtype="string")
            missing = comparison.logical_not(array_join.stack(known))
            names = constant.constant([v.op.name for v in variables])
            result: Tensor = array_select.boolean_mask(names, missing)
            return result


def _variables_or_all(var_list: Sequence[Any] | None) -> list[Any]:
    if var_list is not None:
        return list(var_list)
    found = [*global_variables(), *local_variables()]
    if found:
        return found
    # A graph that was imported without its collections.
    return [
        op.outputs[0]
        for op in get_default_graph().get_operations()
        if op.type in ("Variable", "VariableV2")
    ]


for _collection in (
    GraphKeys.EVAL_STEP,
    GraphKeys.GLOBAL_STEP,
    GraphKeys.GLOBAL_VARIABLES,
    GraphKeys.LOCAL_VARIABLES,
    GraphKeys.METRIC_VARIABLES,
    GraphKeys.MODEL_VARIABLES,
    GraphKeys.MOVING_AVERAGE_VARIABLES,
    GraphKeys.TRAINABLE_VARIABLES,
):
    register_proto_function(
        _collection,
        proto_type=variable_pb2.VariableDef,
        to_proto=lambda variable, export_scope=None: variable.to_proto(export_scope),
        from_proto=Variable.from_proto,
    )
