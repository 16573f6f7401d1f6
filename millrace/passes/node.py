"""The form of a graph that passes and the runtime work on.

A `Node` is an operation stripped of what only graph building needs (scopes, static shapes,
consumers). Passes make new nodes and never touch the user's graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from millrace.core.dtypes import DType
from millrace.graph.operation import Operation
from millrace.graph.registry import OpDefinition


class Edge(NamedTuple):
    """Output `index` of `node`."""

    node: Node
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here

    @property
    def dtype(self) -> DType:
        """The type of the value; a reference type for a variable."""
        return self.node.output_types[self.index]

    @property
    def name(self) -> str:
        """The tensor's name."""
        return f"{self.node.name}:{self.index}"


class Node:
    """One operation of a program.

    Attributes:
      inputs: Data inputs, flattened.
      controls: Nodes that must run before.
      order: Position in the source graph: ties between ready nodes go by it.
      source: The operation it came from, for error messages; None for made nodes.
    """

    __slots__ = (
        "attrs",
        "bodies",
        "controls",
        "definition",
        "device",
        "form",
        "inputs",
        "name",
        "order",
        "output_types",
        "source",
    )

    def __init__(
        self,
        name: str,
        definition: OpDefinition,
        attrs: dict[str, Any],
        inputs: Sequence[Edge] = (),
        controls: Sequence[Node] = (),
        *,
        device: str = "",
        order: int = 0,
        output_types: Sequence[DType] | None = None,
        source: Operation | None = None,
    ) -> None:
        self.name = name
        self.definition = definition
        self.attrs = attrs
        self.inputs = list(inputs)
        self.controls = list(controls)
        self.device = device
        self.order = order
        self.output_types = (
            list(output_types)
            if output_types is not None
            else definition.signature.output_types(attrs)
        )
        self.source = source
        #: Programs of the functions that the node calls; see `function_body.body_of`.
        self.bodies: dict[str, Program] = {}
        #: What the runtime works out once about how to call the kernel; None before it runs.
        self.form: Any = None

    @property
    def type(self) -> str:
        """The op type's name."""
        return self.definition.name

    def predecessors(self) -> Iterable[Node]:
        """The nodes that this one waits for."""
        for edge in self.inputs:
            yield edge.node
        yield from self.controls

    def __repr__(self) -> str:
        return f"<Node {self.name} ({self.type})>"


def output_ref_source(node: Node) -> Edge | None:
    """The reference input that the reference outputs of `node` alias, if it has one."""
    for edge in node.inputs:
        if edge.dtype._is_ref_dtype:
            return edge
    return None


_VARIABLE_TYPES = frozenset(("VariableV2", "Variable", "TemporaryVariable", "VarHandleOp"))
_RESOURCE_PASS_THROUGH = frozenset(("Identity", "Enter", "RefEnter", "RefIdentity"))


def is_variable(node: Node) -> bool:
    """Whether the node is a variable's own."""
    return node.type in _VARIABLE_TYPES


def variable_of(edge: Edge) -> Node | None:
    """The variable's own node behind a reference or resource edge, where it is one.

    Returns None for other resources (queues, tables) and where it depends on the run.
    """
    for _ in range(1000):
        node = edge.node
        if node.type in _VARIABLE_TYPES:
            return node
        if edge.dtype._is_ref_dtype:
            source = output_ref_source(node)
            if source is None or node.type in ("RefSwitch", "RefMerge", "RefSelect"):
                return None
            edge = source
        elif node.type in _RESOURCE_PASS_THROUGH:
            edge = node.inputs[0]
        else:
            return None
    return None


def is_array_handle(edge: Edge) -> bool:
    """Whether the edge names a TensorArray (whose value is its flow)."""
    return edge.node.type == "TensorArrayV3" and edge.index == 0


def is_handle_reference(edge: Edge) -> bool:
    """Whether a reference edge holds the name of a queue, reader or table (an old op type's)."""
    if edge.dtype.base_dtype.name != "string":
        return False
    node = edge.node
    for _ in range(1000):
        source = output_ref_source(node)
        if source is None:
            return node.type not in _VARIABLE_TYPES
        node = source.node
    return False


def is_chosen_reference(edge: Edge) -> bool:
    """Whether only the run tells which variable it is: the value is then the variable itself."""
    node = edge.node
    for _ in range(1000):
        if not edge.dtype._is_ref_dtype or node.type == "RefSelect":
            return edge.dtype._is_ref_dtype
        source = output_ref_source(node)
        if source is None:
            return False
        node = source.node
    return False


def names_variable(edge: Edge) -> bool:
    """Whether the edge carries an identity (a variable, a TensorArray) rather than a value."""
    return (
        (
            edge.dtype._is_ref_dtype
            and not is_handle_reference(edge)
            and not is_chosen_reference(edge)
        )
        or is_array_handle(edge)
        or (edge.dtype.name == "resource" and variable_of(edge) is not None)
    )


def is_variable_edge(edge: Edge) -> bool:
    """Whether the edge stands for a variable: its identity, or its value as it is when used.

    An Identity of a reference is no copy in TensorFlow: who uses it after an update sees the
    update. So ``with tf.control_dependencies([update]): y = v * 2`` reads the new value, though
    the read op of `v` is older than the update.
    """
    return names_variable(edge) or (edge.node.type == "Identity" and variable_of(edge) is not None)


class Program:
    """Nodes to run together, with what goes in and what comes out.

    Attributes:
      nodes: All nodes, each after those that it waits for.
      arguments: Fed edges, in the order of the feeds; their nodes are not in `nodes`.
      results: Edges whose values are wanted.
      targets: Nodes that must run though no value of theirs is wanted.
    """

    __slots__ = ("arguments", "nodes", "results", "targets")

    def __init__(
        self,
        nodes: list[Node],
        arguments: list[Edge],
        results: list[Edge],
        targets: list[Node],
    ) -> None:
        self.nodes = nodes
        self.arguments = arguments
        self.results = results
        self.targets = targets
