"""From a graph, feeds and fetches to the nodes that a step needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.graph.function import ARGUMENT
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.passes.node import Edge, Node, Program


def argument_node(name: str, dtype: Any, index: int) -> Node:
    """A node that stands for the value fed for `name`."""
    return Node(name, ARGUMENT, {"T": dtype.base_dtype, "index": index}, order=-1)


def prune(
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    feeds: Sequence[Tensor],
) -> Program:
    """The program that computes `fetches` and runs `targets` when `feeds` are given.

    Only what these need is in it, cut at the fed tensors. Its nodes are in no particular
    order (loops may still be cycles).
    """
    arguments = {
        tensor: Edge(argument_node(tensor.name, tensor.dtype, i), 0)
        for i, tensor in enumerate(feeds)
    }
    nodes: dict[Operation, Node] = {}
    pending: list[Operation] = []

    def node_for(op: Operation) -> Node:
        node = nodes.get(op)
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
    return Program(list(nodes.values()), list(arguments.values()), results, target_nodes)


def _is_fed(op: Operation, arguments: dict[Tensor, Edge]) -> bool:
    return op.type in ("Placeholder", "PlaceholderV2") and op.outputs[0] in arguments
