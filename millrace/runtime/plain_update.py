"""Which stages only update variables, so that they can be compiled to go through memory once.

See `ops.one_pass`. The pass of the compiler that it needs crashes on programs which look at one
array in several shapes, so nothing may be in the stage but optimizers' updates, assignments, and
arithmetic on single numbers, such as Adam's powers, or copies of one, such as a round's tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from millrace.compiler import one_pass
from millrace.passes.node import Edge, Node, is_variable_edge, variable_of

#: They hand on what they get, or give a variable a value of its own shape.
_ASSIGNING = frozenset(
    (
        "Assign",
        "AssignAdd",
        "AssignAddVariableOp",
        "AssignSub",
        "AssignSubVariableOp",
        "AssignVariableOp",
        "Const",
        "Identity",
        "NoOp",
        "ReadVariableOp",
    )
)
_ARITHMETIC = frozenset(("Add", "AddV2", "Cast", "Mul", "Sub"))


def is_plain_update(nodes: Sequence[Node]) -> bool:
    """Whether a stage of these nodes, in topological order, is such a one."""
    if not one_pass.is_possible() or not any(node.type in one_pass.UPDATES for node in nodes):
        return False
    numbers: set[Node] = set()
    for node in nodes:
        if node.type in _ARITHMETIC and all(_is_number(edge, numbers) for edge in node.inputs):
            numbers.add(node)
        elif node.type == "Fill" and _is_number(node.inputs[1], numbers):
            continue
        elif node.type not in one_pass.UPDATES and node.type not in _ASSIGNING:
            return False
    return True


def _is_number(edge: Edge, numbers: set[Node]) -> bool:
    if edge.node in numbers:
        return True
    if edge.node.type == "Const":
        return not edge.node.attrs["value"].ndim
    variable = variable_of(edge) if is_variable_edge(edge) else None
    shape = None if variable is None else variable.attrs.get("shape")
    return shape is not None and shape.ndims == 0
