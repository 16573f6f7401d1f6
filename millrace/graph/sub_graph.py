"""GraphDef in, smaller GraphDef out: `tf.graph_util`.

Pure functions of messages; only `convert_variables_to_constants` asks a session, for the values
of variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto import graph_pb2, node_def_pb2

from millrace.core import dtypes, errors
from millrace.core.tensor_proto import make_tensor_proto
from millrace.core.tensor_shape import TensorShape
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.platform import logging

_VARIABLE_TYPES = frozenset(("VariableV2", "Variable", "VarHandleOp"))
_VARIABLE_OPS = frozenset(
    "Assign AssignAdd AssignSub Queue ScatterAdd ScatterSub ScatterUpdate TruncatedNormal "
    "Variable VariableV2".split()
)
#: Ops through which a variable's handle may pass on its way to where it is read.
_HANDLE_PASS_THROUGH = frozenset(
    "Identity Enter Switch RefSwitch RefIdentity RefEnter Merge Exit NextIteration".split()
)


def _node_name(input_name: str) -> str:
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
        pending.extend(_node_name(source) for source in nodes[name].input)
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
        controls = [name for name in controls if _node_name(name) not in checks]
        if controls:
            tied.add(node.name)
            tied.update(_node_name(name) for name in controls)
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
                if _node_name(name) not in checks:
                    added.input.append(name)
                continue
            while _node_name(name) in spliced:
                name = spliced[_node_name(name)]
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


# -- Freezing ------------------------------------------------------------------------------


def convert_variables_to_constants(
    sess: Any,
    input_graph_def: graph_pb2.GraphDef,
    output_node_names: Sequence[str],
    variable_names_whitelist: Iterable[str] | None = None,
    variable_names_blacklist: Iterable[str] | None = None,
) -> graph_pb2.GraphDef:
    """The graph that `output_node_names` need, with the variables' values as constants.

    Args:
      sess: The session that holds the variables.
      input_graph_def: The graph; its nodes are in the session's graph too.
      output_node_names: Names of operations (without ``:0``).
      variable_names_whitelist: Only these variables are converted.
      variable_names_blacklist: These variables are not converted.

    Raises:
      UnimplementedError: A handle of a variable goes where a constant cannot stand.
    """
    graph_def = extract_sub_graph(input_graph_def, output_node_names)
    chosen = None if variable_names_whitelist is None else set(variable_names_whitelist)
    refused = set(variable_names_blacklist or ())
    variables = {
        node.name: node
        for node in graph_def.node
        if node.op in _VARIABLE_TYPES
        and (chosen is None or node.name in chosen)
        and node.name not in refused
    }
    values = _values_of(sess, variables)
    made = graph_pb2.GraphDef(versions=graph_def.versions, library=graph_def.library)
    handles = _handles(graph_def, variables)
    extra: list[node_def_pb2.NodeDef] = []
    for node in graph_def.node:
        added = made.node.add()
        if node.name in variables:
            _as_constant(added, node.name, values[node.name])
            continue
        added.CopyFrom(node)
        _read_constants(added, handles, extra)
    made.node.extend(extra)
    logging.info("Froze %d variables.", len(variables))
    return made


def _values_of(sess: Any, variables: dict[str, node_def_pb2.NodeDef]) -> dict[str, np.ndarray]:
    fetches = {}
    for name, node in variables.items():
        fetches[name] = f"{name}:0" if node.op != "VarHandleOp" else _reader(sess.graph, name)
    values: dict[str, np.ndarray] = sess.run(fetches) if fetches else {}
    return values


def _reader(graph: Graph, name: str) -> Any:
    """A tensor of the session's graph that reads a resource variable."""
    pending = [graph.get_operation_by_name(name)]
    while pending:
        op = pending.pop(0)
        for consumer in op.outputs[0].consumers():
            if consumer.type == "ReadVariableOp":
                return consumer.outputs[0]
            if consumer.type == "Identity":
                pending.append(consumer)
    raise errors.NotFoundError(
        None, None, f"No ReadVariableOp in the session's graph reads the variable {name!r}"
    )


def _handles(
    graph_def: graph_pb2.GraphDef, variables: dict[str, node_def_pb2.NodeDef]
) -> dict[str, int]:
    """Names of nodes whose outputs are handles of converted variables, with the value's type."""
    handles = {
        name: node.attr["dtype"].type
        for name, node in variables.items()
        if node.op == "VarHandleOp"
    }
    grows = bool(handles)
    while grows:
        grows = False
        for node in graph_def.node:
            if node.name in handles or node.op not in _HANDLE_PASS_THROUGH:
                continue
            source = _node_name(node.input[0])
            if source in handles and not node.input[0].startswith("^"):
                handles[node.name] = handles[source]
                grows = True
    return handles


def _as_constant(node: node_def_pb2.NodeDef, name: str, value: np.ndarray) -> None:
    node.name, node.op = name, "Const"
    message = make_tensor_proto(value)
    node.attr["dtype"].type = message.dtype
    node.attr["value"].tensor.CopyFrom(message)


def _read_constants(
    node: node_def_pb2.NodeDef, handles: dict[str, int], extra: list[node_def_pb2.NodeDef]
) -> None:
    """Makes a node that took a handle take the value itself."""
    read = [n for n in node.input if not n.startswith("^") and _node_name(n) in handles]
    if not read:
        return
    dtype = handles[_node_name(read[0])]
    if node.op == "ReadVariableOp":
        del node.attr["dtype"]
        node.op = "Identity"
        node.attr["T"].type = dtype
    elif node.name in handles:
        node.attr["T"].type = dtype
    elif node.op == "ResourceGather":
        axis = node_def_pb2.NodeDef()
        _as_constant(axis, f"{node.name}/axis", np.array(0, np.int32))
        extra.append(axis)
        controls = [n for n in node.input if n.startswith("^")]
        data = [n for n in node.input if not n.startswith("^")]
        del node.input[:]
        node.input.extend([*data, axis.name, *controls])
        node.op = "GatherV2"
        node.attr["Tparams"].type = dtype
        node.attr["Taxis"].type = dtypes.int32.as_datatype_enum
        for name in ("dtype", "validate_indices"):
            if name in node.attr:
                del node.attr[name]
    elif node.op == "VariableShape":
        node.op = "Shape"
        node.attr["T"].type = dtype
    else:
        raise errors.UnimplementedError(
            None,
            None,
            f"Cannot make the variable {read[0]!r} a constant: {node.name!r} ({node.op}) takes its "
            "handle. Exclude the variable with variable_names_blacklist, or leave the node out.",
        )
