"""What stages have in common that change one small variable on the host, or else by XLA."""

from __future__ import annotations

from millrace.passes.node import Edge, Node, variable_of
from millrace.runtime.compiled_stage import CompiledStage
from millrace.runtime.kernel_call import variable_key
from millrace.runtime.resources import ResourceStore, VariableSlot


class SmallVariableStage:
    """One node whose first input is the variable; `_compiled` is the same by XLA."""

    blocking = False

    def __init__(self, node: Node, wanted: list[Edge], name: str) -> None:
        self._compiled = CompiledStage([node], wanted, name)
        self.node = node
        self.nodes = [node]
        self.name = name
        self.inputs = self._compiled.inputs
        self.outputs = wanted
        variable = variable_of(node.inputs[0])
        assert variable is not None
        self._variable = variable
        self._slot: tuple[ResourceStore, int, VariableSlot] | None = None

    def _slot_in(self, resources: ResourceStore) -> VariableSlot:
        found = self._slot
        if found is None or found[0] is not resources or found[1] != resources.generation:
            slot = resources.variable(*variable_key(self._variable))
            found = self._slot = resources, resources.generation, slot
        return found[2]
