"""Updates of many small variables, made as one: on tier 0, by one call of their rule.

An update of a small variable is a few microseconds of arithmetic and many more of calls. Those of
one optimizer share their rule and hyperparameters, and rules go element by element: so the
variables, their slots and their gradients are laid end to end, the rule is called once, and each
variable gets its part of the result. Nothing is changed in place, so a step that fails has
changed nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from millrace.core.value import Value
from millrace.ops.state.row_updates import DENSE_UPDATES, DenseUpdate
from millrace.passes.node import Edge, Node, variable_of
from millrace.passes.schedule import writes_state
from millrace.runtime.guarded_writes import JointWrite, PendingState
from millrace.runtime.kernel_call import Way, form_of

#: Larger variables are better changed in place.
_MOST_ELEMENTS = 4096
#: So many are worth being made as one.
_LEAST_MEMBERS = 3


class JointUpdate:
    """Some updates of different variables by the same rule.

    Args:
      nodes: The updates.
      kind: What they have in common.
      flags: The rule's arguments that are attributes.

    Attributes:
      nodes: The updates.
      gradients: Their gradients.
      hyper: Positions of the inputs that they share: the hyperparameters.
      variables: All variables that they change.
    """

    def __init__(self, nodes: Sequence[Node], kind: DenseUpdate, flags: dict[str, bool]) -> None:
        self.nodes = nodes
        self.gradients = [node.inputs[kind.gradient] for node in nodes]
        self.hyper = [position for _, position in kind.hyper]
        self._kind = kind
        self._flags = flags
        #: Of each variable input of the rule, the variables.
        self._variables = [
            [form_of(node).inputs[i][2] for node in nodes] for i in range(kind.variables)
        ]
        self._shapes = [_shape_of(variable) or () for variable in self._variables[0]]
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes]).tolist()
        self._places = [
            (slice(begin, end), shape)
            for begin, end, shape in zip([0, *ends], ends, self._shapes, strict=False)
        ]
        self.variables = frozenset(v for variables in self._variables for v in variables)

    def apply(self, state: Value, gradients: Sequence[Value], hyper: Sequence[Value]) -> bool:
        """Makes the updates, to be stored when the step's writes are.

        Args:
          state: The variables.
          gradients: One for each of `self.gradients`.
          hyper: One for each of `self.hyper`.

        Returns:
          False if something is not as it should be: then each is to be made by itself, which
          tells what is wrong.
        """
        if type(state) is not PendingState or any(value.ndim for value in hyper):
            return False
        tables = []
        for variables in self._variables:
            values = state.stored_values(variables)
            if values is None or [value.shape for value in values] != self._shapes:
                return False
            tables.append(values)
        if [gradient.shape for gradient in gradients] != self._shapes:
            return False
        given = dict(zip([name for name, _ in self._kind.hyper], hyper, strict=True))
        laid = [np.concatenate(values, axis=None) for values in tables]
        gradient = np.concatenate(gradients, axis=None)
        new = self._kind.rule(laid[0], gradient, *laid[1:], **given, **self._flags)
        results = [
            np.asarray(part).astype(old.dtype, copy=False)
            for part, old in zip(new, laid, strict=True)
        ]
        return state.write_together(
            JointWrite(self.nodes, self._variables, results, self._places, self.variables)
        )


def joint_updates(nodes: Sequence[Node], snapshots: frozenset[Edge]) -> dict[Node, JointUpdate]:
    """The updates among some nodes that can be made together, by the last of them in a row.

    Args:
      nodes: In the order in which they run.
      snapshots: Variables whose values right after their node somebody wants.

    Returns:
      For each node that is part of a joint update, which one.
    """
    found: dict[Node, JointUpdate] = {}
    run: list[Node] = []
    written: set[Node] = set()
    versions: Counter[Node] = Counter()
    #: Which variable a node reads, and how often it was written before.
    read_by: dict[Node, tuple[Node, int]] = {}
    for node in [*nodes, None]:
        if node is not None and node.type in ("Const", "NoOp"):
            continue
        if node is not None and node.type == "ReadVariableOp":
            variable = variable_of(node.inputs[0])
            if variable is not None:
                read_by[node] = variable, versions[variable]
        if node is not None and writes_state(node):
            versions.update(v for e in node.inputs if (v := variable_of(e)) is not None)
        variables = None if node is None else _variables_of(node, snapshots)
        if node is not None and variables is not None and not written & set(variables):
            read = {way[2] for way in form_of(node).inputs if way[0] == Way.READ}
            if not read & written:
                run.append(node)
                written.update(variables)
                continue
        found.update(_joined(run, read_by))
        run, written = [], set()
        if node is not None and variables is not None:
            run, written = [node], set(variables)
    return found


def _joined(
    run: Sequence[Node], read_by: Mapping[Node, tuple[Node, int]]
) -> Mapping[Node, JointUpdate]:
    groups: dict[Any, list[Node]] = {}
    for node in run:
        kind = DENSE_UPDATES[node.type]
        edges = (node.inputs[position] for _, position in kind.hyper)
        shared = tuple(read_by.get(edge.node, edge) for edge in edges)
        flags = tuple(bool(node.attrs[flag]) for flag in kind.flags)
        groups.setdefault((node.type, node.attrs["T"], shared, flags), []).append(node)
    found = {}
    for (op_type, _, _, flags), members in groups.items():
        if len(members) >= _LEAST_MEMBERS:
            kind = DENSE_UPDATES[op_type]
            joint = JointUpdate(members, kind, dict(zip(kind.flags, flags, strict=True)))
            found.update(dict.fromkeys(members, joint))
    return found


def _variables_of(node: Node, snapshots: frozenset[Edge]) -> list[Node] | None:
    """The variables of an update of small ones; None if it is something else."""
    kind = DENSE_UPDATES.get(node.type)
    if kind is None or any(Edge(node, i) in snapshots for i in range(len(node.output_types))):
        return None
    form = form_of(node)
    ways = form.inputs[: kind.variables]
    if any(way[0] != Way.REFERENCE for way in ways):
        return None
    if form.inputs[kind.gradient][0] != Way.VALUE or any(
        form.inputs[i][0] not in (Way.VALUE, Way.READ, Way.CONSTANT) for _, i in kind.hyper
    ):
        return None
    variables = [way[2] for way in ways]
    shape = _shape_of(variables[0])
    if shape is None or any(_shape_of(variable) != shape for variable in variables):
        return None
    is_small = int(np.prod(shape)) <= _MOST_ELEMENTS
    return variables if is_small and len(set(variables)) == len(variables) else None


def _shape_of(variable: Node) -> tuple[int, ...] | None:
    shape = variable.attrs.get("shape")
    if shape is None or not shape.is_fully_defined():
        return None
    return tuple(shape.as_list())
