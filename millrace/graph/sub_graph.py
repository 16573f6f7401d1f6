"""GraphDef in, smaller GraphDef out: `tf.graph_util`. Pure functions of messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorboard.compat.proto import graph_pb2, node_def_pb2

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation

_VARIABLE_OPS = frozenset(
    "Assign AssignAdd AssignSub Queue ScatterAdd ScatterSub ScatterUpdate TruncatedNormal "
    "Variable VariableV2".split()
)


def node_name(input_name: str) -> str:
    """The node that an input such as ``^a``, ``a:1`` or ``a:out:0`` comes from."""
    return input_name.removeprefix("^").partition(":")[0]


def extract_sub_graph(
    graph_def: graph_pb2.GraphDef, dest_nodes: Iterable[str]
) -> graph_pb2.GraphDef:
    """The nodes that `dest_nodes` need, and what they are colocated with, in the old order.

    Raises:
      TypeError: `graph_def` is no GraphDef, or `dest_nodes` is a single string.
      AssertionError: A node is not in the graph.
    """
    if not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError(
            f"graph_def must be a graph_pb2.GraphDef proto, but got type {type(graph_def)}."
        )
    if isinstance(dest_nodes, str):
        raise TypeError(
            f"dest_nodes must be an iterable of strings, but got type {type(dest_nodes)}."
        )
    nodes = {node.name: node for node in graph_def.node}
    pending = list(dest_nodes)
    for name in pending:
        if name not in nodes:
            raise AssertionError(f"{name} is not in graph")
    kept: set[str] = set()
    while pending:
        name = pending.pop()
        if name in kept or name not in nodes:
            continue
        kept.add(name)
        pending.extend(node_name(source) for source in nodes[name].input)
        pending.extend(_colocated(nodes[name]))
    made = graph_pb2.GraphDef(versions=graph_def.versions, library=graph_def.library)
    made.node.extend(node for node in graph_def.node if node.name in kept)
    return made


def _colocated(node: node_def_pb2.NodeDef) -> list[str]:
    if "_class" not in node.attr:
        return []
    return [group.decode().removeprefix("loc:@") for group in node.attr["_class"].list.s]


def remove_training_nodes(
    input_graph: graph_pb2.GraphDef, protected_nodes: Iterable[str] | None = None
) -> graph_pb2.GraphDef:
    """The graph without nodes that only training needs.

    CheckNumerics always goes; Identity and StopGradient go unless control edges or colocation
    involve them. What read them reads their input.

    Args:
      input_graph: The graph.
      protected_nodes: Names of nodes to keep in any case.
    """
    protected = set(protected_nodes or ())
    checks = {
        node.name: node.input[0]
        for node in input_graph.node
        if node.op == "CheckNumerics" and node.name not in protected
    }
    tied: set[str] = set()
    for node in input_graph.node:
        if node.name in checks:
            continue
        tied.update(_colocated(node))
        controls = [name for name in node.input if name.startswith("^")]
        controls = [name for name in controls if node_name(name) not in checks]
        if controls:
            tied.add(node.name)
            tied.update(node_name(name) for name in controls)
    spliced = dict(checks)
    for node in input_graph.node:
        if node.op in ("Identity", "StopGradient") and node.name not in protected | tied:
            spliced[node.name] = node.input[0]
    made = graph_pb2.GraphDef()
    for node in input_graph.node:
        if node.name in spliced:
            continue
        added = made.node.add()
        added.CopyFrom(node)
        del added.input[:]
        for name in node.input:
            if name.startswith("^"):
                if node_name(name) not in checks:
                    added.input.append(name)
                continue
            while node_name(name) in spliced:
                name = spliced[node_name(name)]
            added.input.append(name)
    return made


def tensor_shape_from_node_def_name(graph: Graph, input_name: str) -> TensorShape:
    """The static shape of an input as a NodeDef names it (``op`` means ``op:0``)."""
    name = input_name if ":" in input_name else f"{input_name}:0"
    return graph.get_tensor_by_name(name).shape


def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether TensorFlow has kernels for a node on the CPU only.

    Args:
      node: An Operation or a NodeDef.
      pin_variables_on_cpu: Whether variables and their updates count.
    """
    node_def = node.node_def if isinstance(node, Operation) else node
    assert isinstance(node_def, node_def_pb2.NodeDef), f"not an Operation or NodeDef: {node!r}"
    if pin_variables_on_cpu and node_def.op in _VARIABLE_OPS:
        return True
    int32, string = dtypes.int32.as_datatype_enum, dtypes.string.as_datatype_enum
    if node_def.op == "Const":
        return node_def.attr["dtype"].type in (int32, string)
    if node_def.op in ("DynamicStitch", "ParallelDynamicStitch"):
        return bool(node_def.attr["T"].type == int32)
    if node_def.op == "Cast":
        return bool(node_def.attr["SrcT"].type == int32)
    return False
