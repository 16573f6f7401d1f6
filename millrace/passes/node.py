"""The form of a graph that passes and the runtime work on.

A `Node` is an operation stripped of what only graph building needs (scopes, static shapes,
consumers). A pass takes a `Program` and returns one. It never changes the program that it was
given, nor the user's graph: it works on a copy (`Program.copy`), or returns the same program when
it has nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from millrace.core.device_spec import task_of
from millrace.core.dtypes import DType
from millrace.core.value import Attr
from millrace.graph.operation import Operation
from millrace.graph.registry import OpDefinition

if TYPE_CHECKING:
    from millrace.passes.schedule import Stage


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
      attrs: Never changed in place: copies of the node, and the user's operation, share them.
      inputs: Data inputs, flattened.
      controls: Nodes that must run before.
      order: Position in the source graph: ties between ready nodes go by it, then by name.
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
        attrs: dict[str, Attr],
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

    def copy(self) -> Node:
        """The same node as another object, still with the inputs of this one."""
        made: Node = object.__new__(type(self))
        made.name = self.name
        made.definition = self.definition
        made.attrs = self.attrs
        made.inputs = self.inputs
        made.controls = self.controls
        made.device = self.device
        made.order = self.order
        made.output_types = self.output_types
        made.source = self.source
        made.bodies = {}
        made.form = None
        return made

    def rewire(self, copies: Mapping[Node, Node]) -> None:
        """Takes copies as inputs and controls where there are any; in lists of its own."""
        self.inputs = [
            edge if (copy := copies.get(edge.node)) is None else Edge(copy, edge.index)
            for edge in self.inputs
        ]
        self.controls = [copies.get(control, control) for control in self.controls]

    def __repr__(self) -> str:
        return f"<Node {self.name} ({self.type})>"


def ancestors(last: Node) -> set[Node]:
    """All nodes that a node waits for, directly or not."""
    found: set[Node] = set()
    pending = [last]
    while pending:
        for node in pending.pop().predecessors():
            if node not in found:
                found.add(node)
                pending.append(node)
    return found


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


#: For a program: whether a node may be part of an XLA program.
Compilable = Callable[["Program"], Callable[[Node], bool]]


def _pure_nodes(program: Program) -> Callable[[Node], bool]:
    return lambda node: node.definition.is_pure


class Setting(NamedTuple):
    """Where and how a program will run, as far as passes must know it.

    Attributes:
      devices: Full names of all devices; nodes without a wish go to the first. Empty where
        nodes are placed already.
      allow_soft_placement: Whether a device that is not there may be replaced by another one.
      log_placement: Is told where each node was placed; None for nobody.
      home: The task of the master, in a session of a cluster; else empty.
      feeds_one_by_one: Whether it is a partial run, whose feeds arrive one after the other.
      reads_cut: Whether it reads variables as they were at one instant on all tasks, as a save
        does, and not as they are when it asks for them.
      compilable: Which nodes may be part of an XLA program; the runtime knows.
      joinable: Which others may share a stage with them, where stages run node by node before
        they are compiled; else None.
    """

    devices: tuple[str, ...] = ()
    allow_soft_placement: bool = False
    log_placement: Callable[[str], None] | None = None
    home: str = ""
    feeds_one_by_one: bool = False
    reads_cut: bool = False
    compilable: Compilable = _pure_nodes
    joinable: Compilable | None = None


class Program:
    """Nodes to run together, with what goes in and what comes out.

    Attributes:
      nodes: All nodes; each after those that it waits for, once they are ordered.
      arguments: Fed edges, in the order of the feeds; their nodes are not in `nodes`.
      results: Edges whose values are wanted.
      targets: Nodes that must run though no value of theirs is wanted.
      setting: Where and how it will run.
      stages: Its nodes in groups that run as one unit, once they are grouped.
    """

    __slots__ = ("arguments", "nodes", "results", "setting", "stages", "targets")

    def __init__(
        self,
        nodes: Sequence[Node],
        arguments: Sequence[Edge],
        results: Sequence[Edge],
        targets: Sequence[Node],
        setting: Setting | None = None,
    ) -> None:
        self.nodes = list(nodes)
        self.arguments = list(arguments)
        self.results = list(results)
        self.targets = list(targets)
        self.setting = Setting() if setting is None else setting
        self.stages: list[Stage] | None = None

    def copy(self) -> Program:
        """A program of new nodes; those that only lie around it, as arguments do, stay the same."""
        copies = {node: node.copy() for node in self.nodes}
        for copy in copies.values():
            copy.rewire(copies)
        return Program(
            list(copies.values()),
            self.arguments,
            [Edge(copies.get(edge.node, edge.node), edge.index) for edge in self.results],
            [copies.get(node, node) for node in self.targets],
            self.setting,
        )

    def with_nodes(self, nodes: Sequence[Node]) -> Program:
        """The same program with other nodes, or the same nodes in another order."""
        return Program(nodes, self.arguments, self.results, self.targets, self.setting)

    def with_setting(self, setting: Setting) -> Program:
        """The same program in another setting."""
        return Program(self.nodes, self.arguments, self.results, self.targets, setting)

    def tasks(self) -> set[str]:
        """The tasks that its nodes are placed on, and its home."""
        found = {task_of(node.device) for node in self.nodes}
        return found | {self.setting.home} if self.setting.home else found
