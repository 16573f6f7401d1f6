"""Calls of functions, replaced by what the functions contain, as TensorFlow does before it runs.

So what is in a function is placed, cut and compiled together with what is around it. Only plain
calls: branches and loops keep their functions.
"""

from __future__ import annotations

from millrace.core import errors
from millrace.graph import registry
from millrace.graph.function import Function
from millrace.passes.frames import has_control_flow
from millrace.passes.node import Edge, Node, Program
from millrace.passes.prune import prune
from millrace.platform import limits

CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))
#: Functions that call each other deeper would exhaust Python's stack.
_MAX_DEPTH = 100


def inline_calls(program: Program) -> Program:
    """Replaces calls of functions by what the functions contain.

    Raises:
      NotFoundError: A function is not known.
      UnimplementedError: A function calls itself.
      InvalidArgumentError: Functions call each other to too great a depth.
      ResourceExhaustedError: All that is called is too much: each of forty functions that calls
        the one before it twice doubles the graph.
    """
    calls = [node for node in program.nodes if node.type in CALLS]
    if not calls:
        return program
    known: dict[Function, int] = {}
    count = len(program.nodes) + sum(_size(call, known, 0) for call in calls)
    limits.GRAPH_NODES.check(count, "Nodes of the graph with the functions that it calls")
    program = program.copy()
    _inline(program, ())
    return program


def _size(call: Node, known: dict[Function, int], depth: int) -> int:
    """How many nodes a call stands for, with those that it calls in turn."""
    function = call.attrs["f"]
    if not isinstance(function, Function):
        return 0  # Who expands it says what is wrong.
    if depth > _MAX_DEPTH:
        raise errors.InvalidArgumentError(
            None,
            call.source,
            f"Functions call each other more than {_MAX_DEPTH} deep, at {call.name}, which calls "
            f"{function.name}.",
        )
    if function not in known:
        known[function] = 0  # as long as it is being looked at: one that calls itself ends
        body = prune(function.outputs, function.controls, function.inputs)
        known[function] = len(body.nodes) + sum(
            _size(node, known, depth + 1) for node in body.nodes if node.type in CALLS
        )
    return known[function]


def _inline(program: Program, active: tuple[str, ...]) -> None:
    """Replaces the calls in a program that nobody else has.

    Args:
      program: The program; it is changed.
      active: Names of the functions that the program is a part of.
    """
    calls = [node for node in program.nodes if node.type in CALLS]
    if calls:
        _Inliner(program, active).run(calls)


class _Inliner:
    def __init__(self, program: Program, active: tuple[str, ...]) -> None:
        self._program = program
        self._active = active
        #: In v1 control flow, what a call makes is dead when its arguments are.
        self._follows_arguments = has_control_flow(program)
        self._values: dict[Edge, Edge] = {}
        self._ends: dict[Node, Node] = {}

    def run(self, calls: list[Node]) -> None:
        program = self._program
        called = set(calls)
        nodes = [node for node in program.nodes if node not in called]
        for call in calls:
            nodes += self._expand(call)
        known = {*nodes, *self._ends.values()}
        for node in known:
            node.inputs = [self._resolved(edge) for edge in node.inputs]
            controls = (self._ends.get(control, control) for control in node.controls)
            node.controls = [c for c in dict.fromkeys(controls) if c in known and c is not node]
        program.results = [self._resolved(edge) for edge in program.results]
        program.targets = [self._ends.get(node, node) for node in program.targets]
        program.nodes = [*nodes, *self._ends_waited_for(nodes, program.targets)]

    def _ends_waited_for(self, nodes: list[Node], targets: list[Node]) -> list[Node]:
        ends = set(self._ends.values())
        pending = [*targets, *(control for node in nodes for control in node.controls)]
        found: dict[Node, None] = {}
        while pending:
            node = pending.pop()
            if node in ends and node not in found:
                found[node] = None
                pending += node.controls
        return list(found)

    def _expand(self, call: Node) -> list[Node]:
        """The nodes of the function that `call` calls, with the call's inputs."""
        function = call.attrs["f"]
        if not isinstance(function, Function):
            raise errors.NotFoundError(
                None,
                call.source,
                f"Function {function.name} that {call.name} calls is not defined.",
            )
        if function.name in self._active:
            raise errors.UnimplementedError(
                None, call.source, f"Function {function.name} calls itself, at {call.name}."
            )
        body = prune(function.outputs, function.controls, function.inputs)
        _inline(body, (*self._active, function.name))
        arguments = dict(zip(body.arguments, call.inputs, strict=True))
        inside = set(body.nodes)
        before = [*call.controls]
        arrivals = self._arrivals(call) if self._follows_arguments else []
        before += arrivals
        for node in body.nodes:
            if not any(source in inside for source in node.predecessors()):
                node.controls = [*node.controls, *before]
            node.inputs = [arguments.get(edge, edge) for edge in node.inputs]
            node.name = f"{call.name}/{node.name}"
            node.device = node.device or call.device
            node.order = call.order
            if "_class" in node.attrs:
                node.attrs = {k: v for k, v in node.attrs.items() if k != "_class"}
        for i, edge in enumerate(body.results):
            self._values[Edge(call, i)] = arguments.get(edge, edge)
        self._ends[call] = Node(
            call.name,
            registry.lookup("NoOp"),
            {},
            controls=[
                *body.targets,
                *(edge.node for edge in body.results if edge.node in inside),
                *call.predecessors(),
            ],
            device=call.device,
            order=call.order,
            source=call.source,
        )
        return [*arrivals, *body.nodes]

    def _arrivals(self, call: Node) -> list[Node]:
        """Nodes to wait for that are dead where an argument is."""
        return [
            Node(
                f"{call.name}/argument_{i}",
                registry.lookup("Identity"),
                {"T": edge.dtype},
                [edge],
                device=call.device,
                order=call.order,
            )
            for i, edge in enumerate(call.inputs)
            if edge.dtype.name != "resource" and not edge.dtype._is_ref_dtype
        ]

    def _resolved(self, edge: Edge) -> Edge:
        while edge in self._values:
            edge = self._values[edge]
        return edge
