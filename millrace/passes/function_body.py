"""Bodies of conditionals and loops as programs, bound to the node that calls them.

A body's arguments are the caller's inputs. Arguments that are variables (or other handles
known before the run) are replaced by the caller's own edges, so that everything that asks
"which variable is this?" gets an answer inside the body too.
"""

from __future__ import annotations

from millrace.core import errors
from millrace.core.value import Attr
from millrace.graph.function import Function
from millrace.passes.constants import detach_constants
from millrace.passes.inline import inline_calls
from millrace.passes.node import Edge, Node, Program, is_variable_edge, names_variable
from millrace.passes.prune import prune
from millrace.passes.schedule import is_folded, topological_order

#: Op types that call functions, and the position of the functions' first argument.
FIRST_ARGUMENT = {
    "If": 1,
    "StatelessIf": 1,
    "Case": 1,
    "StatelessCase": 1,
    "While": 0,
    "StatelessWhile": 0,
    "PartitionedCall": 0,
    "StatefulPartitionedCall": 0,
    "SymbolicGradient": 0,
}
LOOPS = frozenset(("While", "StatelessWhile"))


def forward(node: Node) -> tuple[str, dict[str, Attr]]:
    """Type and attributes of the op whose functions the node calls.

    That is the node itself, or what it differentiates (any number of times).
    """
    op_type, attrs = node.type, node.attrs
    while op_type == "VectorJacobianProduct":
        op_type = attrs["op_type"].decode()
        attrs = {
            name.removeprefix("_forward_"): value
            for name, value in attrs.items()
            if name.startswith("_forward_")
        }
    return op_type, attrs


def forward_type(node: Node) -> str:
    """The first half of `forward`."""
    return forward(node)[0] if node.type == "VectorJacobianProduct" else node.type


def functions_of(node: Node) -> list[Function]:
    """The functions that a node may call."""
    if forward_type(node) not in FIRST_ARGUMENT:
        return []
    found: list[Function] = []
    for value in node.attrs.values():
        values = value if isinstance(value, list) else [value]
        found.extend(v for v in values if isinstance(v, Function))
    return found


def body_of(node: Node, function: Function) -> Program:
    """The body of `function` as called by `node`; made once."""
    program = node.bodies.get(function.name)
    if program is None:
        if not isinstance(function, Function):
            raise errors.InvalidArgumentError(
                None,
                node.source,
                f"{node.name} ({node.type}) calls the function {function.name!r}, which is not "
                "defined where it is called: it may call itself",
            )
        first = FIRST_ARGUMENT[forward_type(node)]
        program = inline_calls(prune(function.outputs, function.controls, function.inputs))
        outer = node.inputs[first : first + len(program.arguments)]
        known = {
            inner: edge
            for inner, edge in zip(program.arguments, outer, strict=True)
            if names_variable(edge)
        }
        if known:
            for inner_node in program.nodes:
                inner_node.inputs = [known.get(e, e) for e in inner_node.inputs]
            program.results = [known.get(e, e) for e in program.results]
        program = detach_constants(program)
        program = program.with_nodes(topological_order(program.nodes))
        node.bodies[function.name] = program
    return program


def bodies_of(node: Node) -> list[Program]:
    """The bodies of all functions that a node may call."""
    return [body_of(node, function) for function in functions_of(node)]


def is_random(node: Node) -> bool:
    """Whether the node draws random numbers, itself or in a body that it calls."""
    if functions_of(node):
        return any(is_random(inner) for body in bodies_of(node) for inner in body.nodes)
    return "rng" in node.definition.specials and node.type != "VectorJacobianProduct"


def random_name(node: Node) -> str:
    """The name under which the node's executions are counted.

    A gradient repeats the random numbers of its forward op, so it shares that op's name.
    """
    forward = node.attrs.get("forward_name", b"")
    return forward.decode() or node.name


def loop_functions(node: Node) -> tuple[Function, Function]:
    """(condition, body) of a loop, or of the loop that the node differentiates."""
    attrs = forward(node)[1]
    return attrs["cond"], attrs["body"]


def deciding_positions(condition: Program, body: Program) -> set[int] | None:
    """Loop variables on which the number of iterations depends, with all they depend on.

    None when they depend on something that cannot be computed on the host while tracing.
    """
    wanted = _argument_positions(condition, condition.results)
    if wanted is None:
        return None
    while True:
        grown = set(wanted)
        for i in wanted:
            needs = _argument_positions(body, [body.results[i]])
            if needs is None:
                return None
            grown |= needs
        if grown == wanted:
            return wanted
        wanted = grown


def _argument_positions(program: Program, results: list[Edge]) -> set[int] | None:
    positions = {edge: i for i, edge in enumerate(program.arguments)}
    found: set[int] = set()
    seen: set[Edge] = set()
    pending = list(results)
    while pending:
        edge = pending.pop()
        if edge in seen:
            continue
        seen.add(edge)
        node = edge.node
        if edge in positions:
            found.add(positions[edge])
            continue
        definition = node.definition
        if node.type == "Const":
            continue
        if (
            not definition.is_pure
            or not definition.runs_on_numpy
            or definition.is_stateful
            or "rng" in definition.specials
            or is_variable_edge(edge)
        ):
            return None
        pending.extend(node.inputs)
    return found


def slice_of(program: Program, results: list[Edge], controls: bool = True) -> list[Node]:
    """The nodes of an ordered program that `results` need.

    Args:
      program: The program.
      results: What is wanted of it.
      controls: Whether what only has to happen before is needed too.
    """
    needed = {edge.node for edge in results}
    for node in reversed(program.nodes):
        if node in needed:
            needed.update(node.predecessors() if controls else (e.node for e in node.inputs))
    return [node for node in program.nodes if node in needed]


def length_inputs(node: Node, folded: dict[Edge, bool] | None = None) -> list[Edge] | None:
    """The inputs of a loop that decide its length, if they are known once all shapes are.

    None for what is no loop, and for loops whose length only the run shows. The gradient's loop
    is as long as the loop that it differentiates.

    Args:
      node: The node.
      folded: What is known of `schedule.is_folded`; grows.
    """
    if forward_type(node) not in LOOPS:
        return None
    condition, body = (body_of(node, f) for f in loop_functions(node))
    positions = deciding_positions(condition, body)
    if positions is None:
        return None
    known: dict[Edge, bool] = {} if folded is None else folded
    edges = [node.inputs[i] for i in sorted(positions)]
    return edges if all(is_folded(e, known) or _is_count(e, known) for e in edges) else None


def _is_count(edge: Edge, folded: dict[Edge, bool]) -> bool:
    """Whether an edge is the number of iterations of a loop whose length is known."""
    return (
        edge.node.type in LOOPS
        and edge.index in edge.node.attrs["body"].counters
        and is_folded(edge.node.inputs[edge.index], folded)
        and length_inputs(edge.node, folded) is not None
    )
