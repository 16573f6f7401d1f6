"""From a graph, feeds and fetches to the nodes that a step needs."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.core import errors
from millrace.core.dtypes import DType
from millrace.graph.function import ARGUMENT
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.passes.node import Edge, Node, Program, Setting


def argument_node(name: str, dtype: DType, index: int) -> Node:
    """A node that stands for the value fed for `name`."""
    return Node(name, ARGUMENT, {"T": dtype.base_dtype, "index": index}, order=-1)


def prune(
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    feeds: Sequence[Tensor],
    setting: Setting | None = None,
) -> Program:
    """The program that computes `fetches` and runs `targets` when `feeds` are given.

    Only what these need is in it, cut at the fed tensors. Its nodes are in no particular order
    (loops may still be cycles).

    Args:
      fetches: What is to be computed.
      targets: What is to be run.
      feeds: What is given.
      setting: Where and how it will run.
    """
    arguments = {
        tensor: Edge(argument_node(tensor.name, tensor.dtype, i), 0)
        for i, tensor in enumerate(feeds)
    }
    nodes: dict[Operation, Node] = {}
    #: Variables by what they are stored under: operations of one shared name are one node.
    variables: dict[_Storage, Node] = {}
    pending: list[Operation] = []

    def node_for(op: Operation) -> Node:
        node = nodes.get(op)
        if node is None and op.type in _VARIABLES:
            node = variables.get(_storage(op))
            if node is not None:
                _check_same_type(node, op)
                nodes[op] = node
        if node is None:
            node = Node(
                op.name,
                op.definition,
                op.attrs,
                device=op.device,
                order=op._id,
                output_types=[t.dtype for t in op.outputs],
                source=op,
            )
            nodes[op] = node
            if op.type in _VARIABLES:
                variables[_storage(op)] = node
            pending.append(op)
        return node

    def edge_for(tensor: Tensor) -> Edge:
        fed = arguments.get(tensor)
        return fed if fed is not None else Edge(node_for(tensor.op), tensor.value_index)

    results = [edge_for(tensor) for tensor in fetches]
    target_nodes = [node_for(op) for op in targets]
    while pending:
        op = pending.pop()
        node = nodes[op]
        node.inputs = [edge_for(tensor) for tensor in op.inputs]
        # A control edge from an operation all of whose outputs are fed still runs it, as in
        # TensorFlow; one from a fed placeholder has nothing to run.
        node.controls = [node_for(c) for c in op._control_inputs if not _is_fed(c, arguments)]
    distinct = list(dict.fromkeys(nodes.values()))
    return Program(distinct, list(arguments.values()), results, target_nodes, setting)


_VARIABLES = frozenset(("Variable", "VariableV2", "VarHandleOp"))


#: Op type, device, container and name of a variable.
_Storage = tuple[str, str, bytes | None, bytes]


def _storage(op: Operation) -> _Storage:
    shared = op.attrs.get("shared_name") or op.name.encode()
    return op.type, op.device, op.attrs.get("container"), shared


def _check_same_type(node: Node, op: Operation) -> None:
    if node.attrs["dtype"] != op.attrs["dtype"]:
        raise errors.InvalidArgumentError(
            None,
            op,
            f"Trying to access the variable of {node.name} as {op.name}: it has type "
            f"{node.attrs['dtype'].name}, not {op.attrs['dtype'].name}.",
        )


def _is_fed(op: Operation, arguments: dict[Tensor, Edge]) -> bool:
    return op.type in ("Placeholder", "PlaceholderV2") and op.outputs[0] in arguments
