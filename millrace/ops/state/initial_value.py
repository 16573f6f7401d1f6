"""Initial values that read other variables, made safe to use in any order of initialisation."""

from __future__ import annotations

from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.state.variable import Variable

__all__: list[str] = []

#: Nodes that stay as they are: they may look at a variable that is not initialised.
_SAFE_TYPES = frozenset(("IsVariableInitialized", "VarIsInitializedOp", "ReadVariableOp"))
_VARIABLE_TYPES = frozenset(("Variable", "VariableV2", "VarHandleOp"))


def guarded_initial_value(name: str, initial_value: Tensor) -> Tensor:
    """`initial_value` with every variable that it reads replaced by its `initialized_value`.

    So that initialisers can run in any order. Only reference variables are seen; a value
    that is part of a loop is left as it is.
    """
    copies: dict[Operation, Operation | None] = {}
    pending: set[Operation] = set()

    def safe(op: Operation) -> Operation | None:
        """What to use instead of `op`; None inside of a cycle."""
        if op in copies:
            return copies[op]
        if op in pending:
            return None
        if op.type in _SAFE_TYPES:
            return op
        if op.type in _VARIABLE_TYPES:
            found = _initialized_value_of(op)
            copies[op] = op if found is None else found.op
            return copies[op]
        pending.add(op)
        inputs: list[Tensor] = []
        for tensor in op.inputs:
            if op.type in ("If", "StatelessIf") and tensor.op.type in _VARIABLE_TYPES:
                # A branch that reads a variable is there to be taken only if it may.
                inputs.append(tensor)
                continue
            source = safe(tensor.op)
            if source is None:
                return None
            inputs.append(source.outputs[tensor.value_index])
        pending.discard(op)
        copies[op] = op
        if any(new is not old for new, old in zip(inputs, op.inputs, strict=True)):
            copies[op] = _copy_with_inputs(op, inputs, name)
        return copies[op]

    source = safe(initial_value.op)
    return initial_value if source is None else source.outputs[initial_value.value_index]


def _initialized_value_of(op: Operation) -> Tensor | None:
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for variable in op.graph.get_collection(key):
            if isinstance(variable, Variable) and variable.op is op:
                return variable.initialized_value()
    return None


def _copy_with_inputs(op: Operation, inputs: list[Tensor], name: str) -> Operation:
    graph = op.graph
    kind = "Switch" if op.type == "RefSwitch" else op.type
    suffix = name.rstrip("/").replace(":", "_").replace("/", "_")
    with graph.name_scope(None):
        return graph.create_op(kind, inputs, name=f"{op.name}_{suffix}", attrs=dict(op.attrs))
