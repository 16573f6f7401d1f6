"""A program as a GraphDef message, and back: how a task's partition of a step reaches the task.

Arguments are ``_Arg`` nodes and results ``_Retval`` nodes, as in TensorFlow; everything else in
the message is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorboard.compat.proto import graph_pb2

from millrace.core import errors
from millrace.graph import attributes, registry
from millrace.graph.function import Function
from millrace.graph.graph import Graph
from millrace.graph.import_graph_def import import_graph_def
from millrace.graph.operation import Operation
from millrace.graph.signature import parse
from millrace.passes.node import Node, Program
from millrace.passes.prune import prune
from millrace.passes.transfer import BEGINS
from millrace.passes.unfuse import unfuse

#: A result; never run, as its input is what counts.
RESULT = registry.OpDefinition(
    parse("_Retval(input: T) where T: type; index: int >= 0"),
    shape_rule=lambda c: None,
    kernel=lambda input: (),
    kind="host",
    is_stateful=True,
    gradient=registry.NO_GRADIENT,
)
registry.register(RESULT)


#: Attributes that matter only to the master: who is placed with whom, and what it begins with.
_STAYS_HERE = ("_class", BEGINS)


def add_node(graph: graph_pb2.GraphDef, node: Node, names: Mapping[Node, str], device: str) -> None:
    """Adds a node to a GraphDef.

    Args:
      graph: The GraphDef.
      node: The node.
      names: Names of nodes that are called differently in the message.
      device: The device to state.
    """
    made = graph.node.add(name=names.get(node, node.name), op=node.type, device=device)
    for edge in node.inputs:
        name = names.get(edge.node, edge.node.name)
        made.input.append(name if edge.index == 0 else f"{name}:{edge.index}")
    made.input.extend(sorted(f"^{names.get(c, c.name)}" for c in node.controls))
    declared = node.definition.signature.attrs
    for name, value in node.attrs.items():
        if name in _STAYS_HERE:
            continue
        kind = declared[name].type if name in declared else attributes.infer_kind(value)
        made.attr[name].CopyFrom(attributes.to_proto(value, kind))


def to_graph_def(program: Program) -> graph_pb2.GraphDef:
    """The message for a program."""
    message = graph_pb2.GraphDef()
    taken = {node.name for node in program.nodes}
    constants: dict[Node, None] = {}
    ordered = set(program.nodes)
    for edge in [e for node in program.nodes for e in node.inputs] + program.results:
        if edge.node.type == "Const" and edge.node not in ordered:
            constants[edge.node] = None
    taken.update(node.name for node in constants)
    names: dict[Node, str] = {}
    for i, edge in enumerate(program.arguments):
        names[edge.node] = _unique(f"argument_{i}", taken)
    for i, edge in enumerate(program.arguments):
        argument = edge.node.copy()
        argument.attrs = {**argument.attrs, "index": i}
        add_node(message, argument, {argument: names[edge.node]}, "")
    for node in constants:
        made = graph_pb2.GraphDef()
        add_node(made, node, names, node.device)
        del made.node[0].input[:]  # A constant waits for nothing; see `detach_constants`.
        message.node.extend(made.node)
    for node in sorted(program.nodes, key=lambda n: n.order):
        add_node(message, node, names, node.device)
    for i, edge in enumerate(program.results):
        result = Node(
            _unique(f"result_{i}", taken),
            RESULT,
            {"T": edge.dtype.base_dtype, "index": i},
            [edge],
        )
        add_node(message, result, names, "")
    functions: dict[str, Function] = {}
    _collect(program.nodes, functions)
    message.library.function.extend(f.to_function_def() for f in functions.values())
    return message


def _unique(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _collect(nodes: Iterable[Node | Operation], found: dict[str, Function]) -> None:
    """Adds the functions that nodes (or operations) call, and those that these call."""
    for node in nodes:
        for value in node.attrs.values():
            for function in value if isinstance(value, list) else (value,):
                if isinstance(function, Function) and function.name not in found:
                    _collect(function.graph.get_operations(), found)
                    found[function.name] = function


def from_graph_def(message: graph_pb2.GraphDef, graph: Graph) -> Program:
    """The program that a message states.

    Args:
      message: The message.
      graph: An empty graph, for its operations.

    Raises:
      InvalidArgumentError: It is malformed.
      NotFoundError: It has a node of an unknown type.
    """
    try:
        with graph.as_default():
            import_graph_def(_as_clients_write(unfuse(message)), name="")
    except (ValueError, TypeError, KeyError) as error:
        raise errors.InvalidArgumentError(None, None, f"The graph is malformed: {error}") from None
    operations = graph.get_operations()
    arguments = sorted((o for o in operations if o.type == "_Arg"), key=_index)
    results = sorted((o for o in operations if o.type == "_Retval"), key=_index)
    ends = {*arguments, *results}
    return prune(
        [op.inputs[0] for op in results],
        [op for op in operations if op not in ends and not _is_free_constant(op)],
        [op.outputs[0] for op in arguments],
    )


def _as_clients_write(message: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """The message without what only TensorFlow's master writes.

    Names with ``_`` in front, and colocation: what is placed need not be told who is beside it,
    the more so as that may be on another task.
    """
    taken = {node.name for node in message.node}
    names = {
        node.name: _unique(f"internal{node.name}", taken)
        for node in message.node
        if node.name.startswith("_")
    }
    if not names and not any("_class" in node.attr for node in message.node):
        return message
    plain = graph_pb2.GraphDef()
    plain.CopyFrom(message)
    for node in plain.node:
        node.attr.pop("_class", None)
        node.name = names.get(node.name, node.name)
        for i, text in enumerate(node.input):
            name, colon, index = text.removeprefix("^").partition(":")
            if name in names:
                mark = "^" if text.startswith("^") else ""
                node.input[i] = f"{mark}{names[name]}{colon}{index}"
    return plain


def _is_free_constant(op: Operation) -> bool:
    return op.type == "Const" and not op.control_inputs


def _index(op: Operation) -> int:
    return int(op.attrs["index"])
