"""Variables made constants: `tf.graph_util.convert_variables_to_constants`.

A reference variable is one node, and a constant of its name takes its place. A resource
variable is a handle that travels: whatever took the handle must take the value instead, also
inside the functions of conditionals and loops, of which copies are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto import function_pb2, graph_pb2, node_def_pb2

from millrace.core import dtypes, errors
from millrace.core.tensor_proto import make_tensor_proto
from millrace.graph.graph import Graph
from millrace.graph.sub_graph import extract_sub_graph, node_name
from millrace.platform import logging

_VARIABLES = frozenset(("VariableV2", "Variable", "VarHandleOp"))
#: Ops through which a handle may pass on its way to where it is read.
_PASS_THROUGH = frozenset(
    "Identity Enter Switch RefSwitch RefIdentity RefEnter Merge Exit NextIteration".split()
)
#: Ops that call functions: where the arguments begin, and the attribute with their types.
_CALLS = {
    "If": (1, "Tin"),
    "StatelessIf": (1, "Tin"),
    "Case": (1, "Tin"),
    "StatelessCase": (1, "Tin"),
    "While": (0, "T"),
    "StatelessWhile": (0, "T"),
    "PartitionedCall": (0, "Tin"),
    "StatefulPartitionedCall": (0, "Tin"),
}


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
    made = extract_sub_graph(input_graph_def, output_node_names)
    chosen = None if variable_names_whitelist is None else set(variable_names_whitelist)
    refused = set(variable_names_blacklist or ())
    variables = {
        node.name: node
        for node in made.node
        if node.op in _VARIABLES
        and (chosen is None or node.name in chosen)
        and node.name not in refused
    }
    values = _values_of(sess, variables)
    handles = {
        name: node.attr["dtype"].type
        for name, node in variables.items()
        if node.op == "VarHandleOp"
    }
    freezer = _Freezer(made.library)
    others = [node for node in made.node if node.name not in variables]
    extra, _ = freezer.convert(others, handles, in_function=False)
    for name, node in variables.items():
        node.Clear()
        _make_constant(node, name, values[name])
    made.node.extend(extra)
    made.library.function.extend(freezer.made)
    logging.info("Froze %d variables.", len(variables))
    return made


def _values_of(sess: Any, variables: dict[str, node_def_pb2.NodeDef]) -> dict[str, np.ndarray]:
    fetches = {
        name: f"{name}:0" if node.op != "VarHandleOp" else _reader(sess.graph, name)
        for name, node in variables.items()
    }
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


def _make_constant(node: node_def_pb2.NodeDef, name: str, value: np.ndarray) -> None:
    node.name, node.op = name, "Const"
    message = make_tensor_proto(value)
    node.attr["dtype"].type = message.dtype
    node.attr["value"].tensor.CopyFrom(message)


class _Freezer:
    """Converts nodes, and copies of the functions that they call.

    Attributes:
      made: The copies.
    """

    def __init__(self, library: function_pb2.FunctionDefLibrary) -> None:
        self._functions = {f.signature.name: f for f in library.function}
        self._copies: dict[tuple[str, Any], str] = {}
        self.made: list[function_pb2.FunctionDef] = []

    def convert(
        self, nodes: Sequence[node_def_pb2.NodeDef], handles: dict[str, int], *, in_function: bool
    ) -> tuple[list[node_def_pb2.NodeDef], set[str]]:
        """Makes the nodes take values where they took handles.

        Args:
          nodes: Changed in place.
          handles: The types of values by the names of the nodes or arguments whose handles they
            are; grows by the nodes that pass handles on.
          in_function: Whether inputs are written as inside a FunctionDef.

        Returns:
          Nodes to add, and the names of those whose output has another name now.
        """
        _spread(nodes, handles)
        extra: list[node_def_pb2.NodeDef] = []
        renamed: set[str] = set()
        for node in nodes:
            data = [name for name in node.input if not name.startswith("^")]
            taken = {
                i: handles[node_name(name)]
                for i, name in enumerate(data)
                if node_name(name) in handles
            }
            if not taken:
                continue
            dtype = next(iter(taken.values()))
            if node.op == "ReadVariableOp":
                del node.attr["dtype"]
                node.op = "Identity"
                node.attr["T"].type = dtype
                renamed.add(node.name)
            elif node.name in handles:
                node.attr["T"].type = dtype
            elif node.op == "ResourceGather":
                extra.append(_make_gather(node, dtype, in_function))
            elif node.op == "VariableShape":
                node.op = "Shape"
                node.attr["T"].type = dtype
            elif node.op in _CALLS:
                self._convert_call(node, taken)
            else:
                raise errors.UnimplementedError(
                    None,
                    None,
                    f"Cannot make the variable {data[min(taken)]!r} a constant: {node.name!r} "
                    f"({node.op}) takes its handle. Exclude the variable with "
                    "variable_names_blacklist, or leave the node out.",
                )
        if in_function:
            for node in nodes:
                for i, name in enumerate(node.input):
                    node.input[i] = _with_new_output(name, renamed)
        return extra, renamed

    def _convert_call(self, node: node_def_pb2.NodeDef, taken: dict[int, int]) -> None:
        first, types = _CALLS[node.op]
        arguments = {i - first: dtype for i, dtype in taken.items()}
        for i, dtype in arguments.items():
            node.attr[types].list.type[i] = dtype
        for value in node.attr.values():
            for function in [value.func] if value.HasField("func") else value.list.func:
                function.name = self._copy(function.name, arguments)

    def _copy(self, name: str, arguments: dict[int, int]) -> str:
        """The name of a copy of a function that takes values for the given arguments."""
        key = (name, tuple(sorted(arguments.items())))
        if key in self._copies:
            return self._copies[key]
        copy = function_pb2.FunctionDef()
        copy.CopyFrom(self._functions[name])
        count = sum(other == name for other, _ in self._copies)
        copy.signature.name = f"{name}_frozen_{count}" if count else f"{name}_frozen"
        self._copies[key] = copy.signature.name
        handles: dict[str, int] = {}
        for i, dtype in arguments.items():
            copy.signature.input_arg[i].type = dtype
            handles[copy.signature.input_arg[i].name] = dtype
        extra, renamed = self.convert(copy.node_def, handles, in_function=True)
        copy.node_def.extend(extra)
        for result in copy.signature.output_arg:
            source = copy.ret[result.name]
            copy.ret[result.name] = _with_new_output(source, renamed)
            if node_name(source) in handles:
                result.type = handles[node_name(source)]
        self.made.append(copy)
        return self._copies[key]


def _spread(nodes: Sequence[node_def_pb2.NodeDef], handles: dict[str, int]) -> None:
    """Adds the nodes that pass a handle on."""
    grows = bool(handles)
    while grows:
        grows = False
        for node in nodes:
            if node.name in handles or node.op not in _PASS_THROUGH or not node.input:
                continue
            source = node_name(node.input[0])
            if source in handles and not node.input[0].startswith("^"):
                handles[node.name] = handles[source]
                grows = True


def _with_new_output(name: str, renamed: set[str]) -> str:
    """An input inside a function, after ReadVariableOp (``value``) became Identity (``output``)."""
    parts = name.split(":")
    if len(parts) == 3 and parts[0] in renamed:
        return f"{parts[0]}:output:{parts[2]}"
    return name


def _make_gather(node: node_def_pb2.NodeDef, dtype: int, in_function: bool) -> node_def_pb2.NodeDef:
    """Makes a ResourceGather a GatherV2; the axis that it needs."""
    axis = node_def_pb2.NodeDef()
    _make_constant(axis, f"{node.name}/axis", np.array(0, np.int32))
    controls = [n for n in node.input if n.startswith("^")]
    data = [n for n in node.input if not n.startswith("^")]
    del node.input[:]
    node.input.extend([*data, f"{axis.name}:output:0" if in_function else axis.name, *controls])
    node.op = "GatherV2"
    node.attr["Tparams"].type = dtype
    node.attr["Taxis"].type = dtypes.int32.as_datatype_enum
    for name in ("dtype", "validate_indices"):
        if name in node.attr:
            del node.attr[name]
    return axis
