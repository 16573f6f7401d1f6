"""Which nodes may be part of an XLA program: what the passes of a task must know of the runtime."""

from __future__ import annotations

from collections.abc import Callable

from millrace.graph.function import Function
from millrace.ops.random.random import SHARES_PROGRAMS
from millrace.passes import schedule
from millrace.passes.function_body import (
    FIRST_ARGUMENT,
    LOOPS,
    body_of,
    forward,
    forward_type,
    functions_of,
    length_inputs,
    loop_functions,
)
from millrace.passes.node import (
    Edge,
    Node,
    Program,
    is_array_handle,
    is_chosen_reference,
    is_variable_edge,
    names_variable,
    variable_of,
)
from millrace.runtime.compiled_stage import MAX_EMBEDDED_BYTES, VariableUse
from millrace.runtime.stages.rows import nodes_in_rows


def compilable(program: Program) -> Callable[[Node], bool]:
    """For each node of a program, whether it may be part of an XLA program.

    Rows of large tables, and the first random values of variables, are not.
    """
    alone = _initial_draws(program) | nodes_in_rows(program)
    folded: dict[Edge, bool] = {}
    return lambda node: node not in alone and can_compile(node, folded)


def joinable(program: Program) -> Callable[[Node], bool]:
    """For each node of a program, whether it may be in a stage that runs node by node.

    It must only compute: whatever waits, has state, reads files or calls functions is a stage of
    its own.
    """
    alone = _initial_draws(program) | nodes_in_rows(program)
    return lambda node: node not in alone and _can_join(node)


def _can_join(node: Node) -> bool:
    definition = node.definition
    return (
        (definition.runs_on_numpy if definition.is_pure else definition.kind == "host")
        # Those of partitions and regions are more than their inputs and attributes tell.
        and (definition.is_pure or not node.type.startswith("_"))
        and not definition.is_stateful
        and "File" not in node.type
        and bool(node.inputs and node.output_types)
        and _COMPUTING.issuperset(definition.specials)
        and not functions_of(node)
        and not any(is_variable_edge(edge) or is_array_handle(edge) for edge in node.inputs)
        and not any(
            dtype._is_ref_dtype or dtype.name in ("resource", "variant")
            for dtype in (*node.output_types, *(edge.dtype for edge in node.inputs))
        )
    )


#: What kernels that only compute may ask for.
_COMPUTING = frozenset(("xp", "node", "check"))
_NOT_IN_XLA = frozenset(("string", "variant", "resource"))


def can_compile(node: Node, folded: dict[Edge, bool], in_body: bool = False) -> bool:
    """Whether a node may be part of an XLA program.

    A host kernel may when its inputs are known while the program is traced.

    Args:
      node: The node.
      folded: What is known already of `schedule.is_folded`; grows.
      in_body: Whether it is part of a body that is to be compiled with its caller.
    """
    if not node.definition.is_pure and not (
        node.definition.is_foldable
        and node.inputs
        and all(schedule.is_folded(edge, folded) for edge in node.inputs)
    ):
        return False
    for edge in node.inputs:
        if is_array_handle(edge):
            if edge.node.attrs["dynamic_size"]:
                # It grows as it is written: positions must be there to be looked at.
                return False
            continue
        if is_chosen_reference(edge):
            return False
        base = edge.dtype.base_dtype.name
        if base == "resource" and (variable := variable_of(edge)) is not None:
            base = variable.attrs["dtype"].name
        if base == "variant" and _is_list(edge, folded, in_body):
            continue
        if base in _NOT_IN_XLA and not (node.type == "Assert" and _is_short_constant(edge)):
            return False
    for i, dtype in enumerate(node.output_types):
        if node.type in LOOPS and names_variable(node.inputs[i]):
            continue  # a handle goes through a loop unchanged
        name = dtype.base_dtype.name
        if name == "variant" and _is_list(Edge(node, i), folded, in_body):
            continue
        if name in _NOT_IN_XLA and not (
            name == "resource"
            and (variable_of(Edge(node, i)) is not None or is_array_handle(Edge(node, i)))
        ):
            return False
    return not functions_of(node) or _body_can_compile(node, folded)


#: Ops that make lists of tensors which a program can hold.
_LISTS = frozenset(("EmptyTensorList", "TensorListPushBack", "TensorListPopBack", "FakeParam"))
#: Ops that hand variants on, as their inputs are.
_HANDING_ON = frozenset(("AddN", "Identity", "StopGradient", "ZerosLike", *FIRST_ARGUMENT))


def _is_list(edge: Edge, folded: dict[Edge, bool], in_body: bool) -> bool:
    """Whether a variant is a list of tensors of types that XLA has, and made in the program.

    One that comes from outside of the program may be of any length: each would be a program.
    """
    seen: set[Node] = set()
    pending = [edge]
    while pending:
        node = pending.pop().node
        if node in seen or (in_body and node.type == "_Arg"):
            continue
        seen.add(node)
        if node.type not in _LISTS and node.type not in _HANDING_ON:
            return False
        if node.type in LOOPS and length_inputs(node, folded) is None:
            return False
        element = node.attrs.get("element_dtype")
        if element is not None and element.name in ("string", "resource"):
            return False
        pending.extend(e for e in node.inputs if e.dtype.base_dtype.name == "variant")
    return True


def _is_short_constant(edge: Edge) -> bool:
    """Whether the edge is, say, the text of an assertion: known, and only needed if it fails."""
    node = edge.node
    return node.type == "Const" and node.attrs["value"].nbytes <= MAX_EMBEDDED_BYTES


def _body_can_compile(node: Node, folded: dict[Edge, bool]) -> bool:
    """Whether a conditional or loop can be part of an XLA program.

    Its bodies must be pure and leave variables alone; a loop must keep its variables' shapes,
    and if it keeps values for its gradient, the number of iterations must be known while tracing.
    """
    if forward_type(node) in LOOPS:
        if forward(node)[1].get("_shapes_vary", False):
            return False
        if _carries_lists(node) and length_inputs(node, folded) is None:
            return False  # A program must know how long they get.
    for function in functions_of(node):
        body = body_of(node, function)
        known = _folded_arguments(node, function, body, folded)
        for inner in body.nodes:
            if (
                not can_compile(inner, known, in_body=True)
                or schedule.writes_state(inner)
                or inner.type == "Assert"
                or any(
                    not schedule.is_folded(inner.inputs[i], known)
                    for i in schedule.static_positions(inner)
                )
            ):
                return False
    return True


def _carries_lists(node: Node) -> bool:
    return any(dtype.base_dtype.name == "variant" for dtype in node.output_types)


def _folded_arguments(
    node: Node, function: Function, body: Program, folded: dict[Edge, bool]
) -> dict[Edge, bool]:
    """Which arguments of a body are known while tracing: those that the caller knows.

    In a loop that holds only for what every iteration hands on unchanged.
    """
    first = FIRST_ARGUMENT[forward_type(node)]
    loops = forward_type(node) in LOOPS
    unchanged = [True] * len(body.arguments)
    if loops:
        outputs = loop_functions(node)[1].outputs
        inputs = loop_functions(node)[1].inputs
        unchanged = [o is i for o, i in zip(outputs, inputs, strict=True)]
    known = {
        edge: unchanged[i] and schedule.is_folded(node.inputs[first + i], folded)
        for i, edge in enumerate(body.arguments)
    }
    for i, edge in enumerate(body.arguments):
        if edge.dtype.base_dtype.name == "variant":
            known[edge] = _keeps_known(node.inputs[first + i], folded)
    return known


def _keeps_known(edge: Edge, folded: dict[Edge, bool]) -> bool:
    """Whether a list holds what is known while tracing: a loop has kept, say, a shape."""
    node = edge.node
    if node.type not in LOOPS:
        return False
    function = loop_functions(node)[1]
    body = body_of(node, function)
    pushed = body.results[edge.index].node
    if pushed.type != "TensorListPushBack" or pushed.inputs[0] != body.arguments[edge.index]:
        return False
    return schedule.is_folded(pushed.inputs[1], _folded_arguments(node, function, body, folded))


def _initial_draws(program: Program) -> set[Node]:
    """Random nodes of a program that only initializes variables.

    It runs once. A copy of the generator for every weight would take seconds to compile, so
    these nodes run by themselves, with compiled programs that they share.
    """
    draws = {
        node
        for node in program.nodes
        if node.type in SHARES_PROGRAMS and all(e.node.type == "Const" for e in node.inputs)
    }
    if len(draws) < 2 or program.arguments:
        return set()
    use = VariableUse(program.nodes, frozenset())
    return draws if use.written and not use.read else set()
