"""A loop as straight-line code: condition and body in one Python function, made once.

    i0, i1, i2, = inputs          the loop's variables, by position
    v0 = k0(i0, i2)               the condition
    if v0:
     v1 = k1(i2)                  what is the same in all iterations
     n = 0
     while True:
      begin(n); n += 1
      v2 = k2(i1, v1)             the body
      i0, i1 = v3, v2
      v0 = k0(i0, i2)
      if not v0: break
    return [i0, i1, i2]

Nodes that only use what no iteration changes run once, when the first iteration begins: a loop
that makes none runs none of them. Lists that an iteration only pushes to or pops from are Python
lists, and arrays that it writes to are changed in place, if nobody can see the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millrace.core.value import Value
from millrace.passes.function_body import functions_of, is_random
from millrace.passes.node import (
    Edge,
    Node,
    Program,
    is_array_handle,
    is_variable_edge,
    names_variable,
    variable_of,
)
from millrace.passes.schedule import writes_state
from millrace.runtime.kernel_call import Services, form_of
from millrace.runtime.tape import FOLDABLE, Line, Tape, Text, Writer, block

#: Ops that take something out of an array of tensors, which stays as it is.
_READING = frozenset(
    (
        "TensorArrayReadV3",
        "TensorArrayGatherV3",
        "TensorArraySizeV3",
        "_GradientOfElement",
        "_GradientsOfElements",
    )
)
#: Ops that write to one, or hand it on, with the position of the array among their inputs.
_WRITING = {"TensorArrayWriteV3": 3, "_AddToElement": 0, "Identity": 0}


class LoopTape(Tape):
    """The code of a loop.

    Args:
      condition: The loop's condition.
      body: Its body.
      arrays: Positions of variables that may be no NumPy arrays.
      stacks: Positions of variables that are Python lists, which change in place.
      owned: Positions of variables that are TensorArrays which change in place.
    """

    def __init__(
        self,
        condition: Program,
        body: Program,
        arrays: frozenset[int],
        stacks: frozenset[int],
        owned: frozenset[int],
    ) -> None:
        writer = _LoopWriter(condition, body, arrays, stacks, owned)
        self._make(writer, writer.loop_source())

    def run(
        self,
        values: Sequence[Value],
        services: Services,
        ask: Callable[[], None],
        begin: Callable[[int], None],
    ) -> list[Value]:
        """The last values of the loop's variables.

        Args:
          values: The first ones.
          services: Variables and random keys.
          ask: Is called before the condition is asked, if that draws random numbers.
          begin: Is called before each iteration, with its number; raises to end the loop.

        Raises:
          OpError: As a `Tape` does.
        """
        return self._run(values, services, ask, begin)


class _LoopWriter(Writer):
    def __init__(
        self,
        condition: Program,
        body: Program,
        arrays: frozenset[int],
        stacks: frozenset[int],
        owned: frozenset[int],
    ) -> None:
        super().__init__(body.arguments, frozenset(), arrays, False, stacks)
        self._condition = condition
        self._body = body
        self._owned.update(body.arguments[i] for i in owned)
        for position, edge in enumerate(condition.arguments):
            self._name[edge] = self._inputs[position]
            if position in arrays:
                self._odd.add(edge)
        #: Names of what no iteration changes.
        self._fixed = {
            self._inputs[i]
            for i, edge in enumerate(body.results)
            if i not in stacks and i not in owned and _origin(edge) == body.arguments[i]
        }

    def loop_source(self) -> Text:
        """The lines of the function."""
        condition, body = self._condition, self._body
        nodes = [*condition.nodes, *body.nodes]
        self._look_for_patterns(nodes, [*condition.results, *body.results])
        asked_once, asked = self._part(condition.nodes, 0)
        holds = self._value(condition.results[0])
        self._read.clear()
        done_once, done = self._part(body.nodes, len(condition.nodes))
        after = [self._result(edge, i) for i, edge in enumerate(body.results)]
        changed = [i for i, name in enumerate(after) if name != self._inputs[i]]
        new = [after[i] for i in changed]
        once = {name for line in (*asked_once, *done_once) for name in line.writes}
        live = {*self._fixed, *once, *new, *(n for n in after if n in self._inputs)}
        ended = sorted({name for name in new if name[0] == "v" and name not in once})
        asks: Text = [(line.text, line.node) for line in asked]
        if any(is_random(node) for node in condition.nodes):
            asks.insert(0, ("seen()", None))
        # The inputs of the condition live on: it is asked again with the values of the body.
        live.update(self._inputs[i] for i in range(len(after)) if i not in changed)
        text = self._head()
        text += [(f" {line.text}", line.node) for line in asked_once]
        text += [(f" {line}", node) for line, node in asks]
        text.append((f" if {holds}:", None))
        text += [(f"  {line.text}", line.node) for line in done_once]
        text += [("  n = 0", None), ("  while True:", None), ("   begin(n); n += 1", None)]
        text += block(done, live, "   ")
        if changed:
            names = ", ".join(self._inputs[i] for i in changed)
            text.append((f"   {names} = {', '.join(new)}", None))
        if ended:
            text.append((f"   del {', '.join(ended)}", None))
        text += [(f"   {line}", node) for line, node in asks]
        text.append((f"   if not {holds}: break", None))
        text.append((f" return [{', '.join(self._inputs)}]", None))
        return text

    def _part(self, nodes: Sequence[Node], first: int) -> tuple[list[Line], list[Line]]:
        """Lines of nodes: those that run once, and those that run in each iteration."""
        once: list[Line] = []
        each: list[Line] = []
        for number, node in enumerate(nodes, first):
            is_fixed = self._is_fixed(node)
            self._lines = once if is_fixed else each
            self._add(node, f"{number}")
            if is_fixed:
                self._fixed.update(name for line in once for name in line.writes)
        return once, each

    def _is_fixed(self, node: Node) -> bool:
        """Whether a node gives the same in each iteration."""
        definition = node.definition
        if (
            not definition.is_foldable
            or not FOLDABLE.issuperset(definition.specials)
            or writes_state(node)
            or functions_of(node)
            or not node.output_types
            or node.controls
        ):
            return False
        for edge in node.inputs:
            if edge in self._odd or is_variable_edge(edge):
                return False
            is_known = edge in self._known or edge.node.type == "Const"
            if not is_known and self._name.get(edge) not in self._fixed:
                return False
        return True

    def _result(self, edge: Edge, position: int) -> str:
        """The name of what an iteration makes of a variable of the loop."""
        if edge in self._name or edge.node.type == "Const":
            return self._value(edge)
        if is_array_handle(edge):
            return "None"
        variable = variable_of(edge)
        assert variable is not None, edge
        self._lines = []
        if names_variable(edge):
            return self._ref(variable)
        return f"{self._ref(variable)}.read()"


def _origin(edge: Edge) -> Edge:
    """The value that an edge hands on."""
    while form_of(edge.node).hands_on and not is_variable_edge(edge):
        edge = edge.node.inputs[0]
    return edge


def users_of(condition: Program, body: Program) -> dict[Edge, list[Node]]:
    """The nodes of a loop that use each value."""
    users: dict[Edge, list[Node]] = {}
    for node in (*condition.nodes, *body.nodes):
        for edge in node.inputs:
            users.setdefault(edge, []).append(node)
    return users


def stacks_of(condition: Program, body: Program) -> frozenset[int]:
    """Loop variables that are lists which one node of the body pushes to or pops from."""
    users = users_of(condition, body)
    found = []
    for i, edge in enumerate(body.arguments):
        using = users.get(edge, [])
        if edge.dtype.name != "variant" or len(using) != 1 or condition.arguments[i] in users:
            continue
        (node,) = using
        after = Edge(node, 0)
        if (
            node.type in ("TensorListPushBack", "TensorListPopBack")
            and node.inputs[0] == edge
            and body.results[i] == after
            and body.results.count(after) == 1
            and after not in users
        ):
            found.append(i)
    return frozenset(found)


def owned_arrays(condition: Program, body: Program) -> frozenset[int]:
    """Loop variables that are TensorArrays which can be changed in place.

    A write may follow reads of what was there before it, and nobody else may have that.
    """
    users = users_of(condition, body)
    order = {node: i for i, node in enumerate(body.nodes)}
    found = []
    for i, edge in enumerate(body.arguments):
        writes = 0
        while True:
            writers = [n for n in users.get(edge, ()) if _writes_to(n, edge)]
            readers = [n for n in users.get(edge, ()) if n not in writers]
            if len(writers) > 1 or any(n.type not in _READING for n in readers):
                break
            if not writers:
                if (
                    writes
                    and body.results[i] == edge
                    and body.results.count(edge) == 1
                    and condition.arguments[i] not in users
                ):
                    found.append(i)
                break
            if edge in body.results or any(order[n] > order[writers[0]] for n in readers):
                break
            edge, writes = Edge(writers[0], 0), writes + 1
    return frozenset(found)


def _writes_to(node: Node, edge: Edge) -> bool:
    position = _WRITING.get(node.type)
    return position is not None and node.inputs[position] == edge and node.inputs.count(edge) == 1
