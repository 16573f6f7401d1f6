"""Operations that a SavedModel runs once it is loaded."""

from __future__ import annotations

from typing import Any

from millrace.graph.defaults import control_dependencies, get_default_graph
from millrace.graph.operation import Operation
from millrace.ops.control_flow import control_flow
from millrace.ops.lookup import tables as lookup
from millrace.ops.state import variables


def main_op() -> Operation:
    """Initialises all variables and tables."""
    return control_flow.group(
        variables.global_variables_initializer(),
        variables.local_variables_initializer(),
        lookup.tables_initializer(),
    )


def main_op_with_restore(restore_op_name: Any) -> Operation:
    """Initialises all variables and tables, then restores variables with a Saver's operation."""
    restore = get_default_graph().as_graph_element(restore_op_name)
    with control_dependencies([main_op()]):
        return control_flow.group(restore)
