"""Which variables a set of nodes reads and writes."""

from __future__ import annotations

from millrace.passes.function_body import bodies_of, functions_of
from millrace.passes.node import Edge, Node, is_variable_edge, names_variable, variable_of


class VariableUse:
    """Which variables a stage touches.

    Attributes:
      read: Read before the stage writes them (inputs of the call).
      written: Changed by the stage (outputs of the call).
      perhaps: Those of `read` that only bodies of conditionals and loops read.
    """

    def __init__(self, nodes: list[Node], snapshots: frozenset[Edge]) -> None:
        self.read: list[Node] = []
        self.written: list[Node] = []
        self._seen_read: set[Node] = set()
        self._seen_written: set[Node] = set()
        self._surely: set[Node] = set()
        self._scan(nodes, snapshots, in_body=False)
        self.perhaps = [v for v in self.read if v not in self._surely]

    def _scan(self, nodes: list[Node], snapshots: frozenset[Edge], in_body: bool) -> None:
        for node in nodes:
            for body in bodies_of(node):
                self._scan(body.nodes, snapshots, in_body=True)
                for edge in body.results:
                    found = variable_of(edge) if is_variable_edge(edge) else None
                    if found is not None and edge.dtype.name != "resource":
                        self._note_read(found, in_body=True)
            positions = node.definition.signature.input_slices(node.attrs)
            updates = {positions[i] for i in node.definition.updates}
            overwrites = {positions[i] for i in node.definition.overwrites}
            for i, edge in enumerate(node.inputs):
                if not is_variable_edge(edge):
                    continue
                variable = variable_of(edge)
                if variable is None:
                    continue
                if i in updates or (i not in overwrites and not _only_passes(node)):
                    self._note_read(variable, in_body)
                if (i in updates or i in overwrites) and variable not in self._seen_written:
                    self._seen_written.add(variable)
                    self.written.append(variable)
            for i in range(len(node.output_types)):
                edge = Edge(node, i)
                if edge in snapshots and is_variable_edge(edge):
                    variable = variable_of(edge)
                    if variable is not None:
                        self._note_read(variable, in_body)

    def _note_read(self, variable: Node, in_body: bool) -> None:
        if not in_body:
            self._surely.add(variable)
        if variable not in self._seen_written and variable not in self._seen_read:
            self._seen_read.add(variable)
            self.read.append(variable)


def _only_passes(node: Node) -> bool:
    """Whether the node hands a variable's identity on without reading it."""
    if functions_of(node):
        return all(names_variable(edge) for edge in node.inputs if is_variable_edge(edge))
    if node.type == "Identity":
        return is_variable_edge(Edge(node, 0))
    return (
        bool(node.output_types)
        and all(t._is_ref_dtype or t.name == "resource" for t in node.output_types)
        and not (node.definition.updates or node.definition.overwrites)
    )
