"""A stage some of whose shapes change: cut into parts that do and parts that do not.

Ids of a batch, gathered rows, segment sums, sparse updates, a time axis: their lengths change with
each batch; strings and what sorts ids are nothing for XLA. What comes after them often has fixed
shapes: batch by width. Which is which is not guessed from names of ops but seen: tier 0 knows every
shape. Nodes that touch a value whose shape has changed stay on tier 0, each by itself, so that one
table's length never concerns another's; the others are stages of their own, which are compiled
once, where that saves enough. One of those whose shapes change after all is cut again in the same
way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from millrace.core.value import Context, Value
from millrace.passes.node import Edge, Node, is_variable, is_variable_edge
from millrace.passes.schedule import writes_state
from millrace.runtime.stage_form import StageForm, decided_inside
from millrace.runtime.tiers import Programs

#: So many sets of shapes must have been seen.
_ENOUGH = 3
#: What takes less on tier 0, in all and of the stage, is not worth a program and a call of its own.
_LEAST_SECONDS, _LEAST_SHARE = 0.0003, 0.1


class PureStage(Protocol):
    """A stage of pure nodes: it has its outputs when it returns."""

    inputs: list[Edge]
    outputs: list[Edge]
    programs: Programs

    @property
    def compiles(self) -> int:
        """How many programs were compiled for it."""

    def run(self, inputs: list[Value], step: Context) -> list[Value]:
        """As `Stage.run`."""


#: (nodes, outputs, name, whether it stays on tier 0) -> a stage.
MakeStage = Callable[[list[Node], list[Edge], str, bool], PureStage]


class SeenShapes:
    """The shapes of all values in a stage, which of them have changed, and what nodes took.

    Attributes:
      varying: Values whose shapes have changed.
      seconds: What each node took on tier 0, at best.
    """

    def __init__(self) -> None:
        self._first: dict[Edge, Any] = {}
        self._count = 0
        self._running: Node | None = None
        self._since = 0.0
        self.varying: set[Edge] = set()
        self.seconds: dict[Node, float] = {}

    def begin(self, node: Node | None) -> None:
        """Notes that a node runs from now on, or that none does."""
        now = time.perf_counter()
        if self._running is not None:
            took = now - self._since
            self.seconds[self._running] = min(took, self.seconds.get(self._running, took))
        self._running, self._since = node, now

    def note(self, values: Mapping[Edge, Value]) -> None:
        """Notes the values of a run whose inputs had new shapes."""
        self.begin(None)
        self._count += 1
        for edge, value in values.items():
            self.note_shape(edge, value)

    def note_shape(self, edge: Edge, value: Value) -> None:
        """Notes the shape of one value of a run."""
        shape = getattr(value, "shape", None)
        if self._first.setdefault(edge, shape) != shape:
            self.varying.add(edge)

    @property
    def is_enough(self) -> bool:
        """Whether enough was seen to tell what changes."""
        return self._count >= _ENOUGH


class SplitStage:
    """The parts of a stage, run one after the other."""

    def __init__(self, form: StageForm, parts: list[PureStage]) -> None:
        self._form = form
        self.parts = parts

    @property
    def programs(self) -> int:
        """How many programs were compiled for its parts."""
        return sum(part.compiles for part in self.parts)

    def note_for(self, runs: int) -> None:
        """Tells the parts for how many runs of the stage their next one stands."""
        for part in self.parts:
            part.programs.runs_per_note = runs

    def run(self, inputs: list[Value], step: Context) -> list[Value]:
        """Runs the stage; each part takes the locks of its own variables."""
        values = dict(zip(self._form.inputs, inputs, strict=True))
        for part in self.parts:
            found = part.run([values[edge] for edge in part.inputs], step)
            values.update(zip(part.outputs, found, strict=True))
        return [values[edge] for edge in self._form.outputs]


def split(form: StageForm, seen: SeenShapes, make: MakeStage) -> SplitStage | None:
    """Cuts a stage where shapes change; None if there is nothing to gain.

    Args:
      form: The stage.
      seen: What its runs have shown.
      make: Makes a part.
    """
    on_host = {node for node in form.nodes if _touches(node, seen.varying)} | form.host_nodes
    if not on_host and form.is_one_program:
        return None
    least = max(_LEAST_SECONDS, _LEAST_SHARE * sum(seen.seconds.values()))
    while True:
        groups = _groups(form, on_host)
        cheap = [
            node
            for (_, host), nodes in groups
            if not host and sum(seen.seconds.get(n, 0.0) for n in nodes) < least
            for node in nodes
        ]
        if not cheap:
            break
        on_host.update(cheap)
    if all(host for (_, host), _ in groups):
        return None
    home = {node: key for key, nodes in groups for node in nodes}
    needed = set(form.outputs)
    for key, nodes in groups:
        for node in nodes:
            needed.update(
                edge
                for edge in node.inputs
                if home.get(edge.node, key) != key and not is_variable_edge(edge)
            )
    parts = []
    for i, ((_, host), nodes) in enumerate(groups):
        outputs = [
            edge
            for node in nodes
            for k in range(len(node.output_types))
            if (edge := Edge(node, k)) in needed
        ]
        parts.append(make(nodes, outputs, f"{form.name}_{i}", host))
    return SplitStage(form, parts)


def _touches(node: Node, varying: set[Edge]) -> bool:
    return any(edge in varying for edge in node.inputs) or any(
        Edge(node, k) in varying for k in range(len(node.output_types))
    )


def _groups(form: StageForm, on_host: set[Node]) -> list[tuple[tuple[int, bool], list[Node]]]:
    """Nodes by how often the path to them changes sides, and by side; in an order that works.

    Writes, and what comes after them, follow all else: a step that fails has written nothing.
    """
    inside = set(form.nodes)
    decided = set() if form.is_one_program else decided_inside(form.nodes)
    level: dict[Node, int] = {}
    idle: set[Node] = set()
    after_write: set[Node] = set()
    for node in form.nodes:
        if writes_state(node) or any(p in after_write for p in node.predecessors()):
            after_write.add(node)
    for is_late in (False, True):
        first = 1 + max(level.values(), default=-1) if is_late else 0
        for node in form.nodes:
            if (node in after_write) is not is_late:
                continue
            sources = [p for p in node.predecessors() if p in inside]
            if _only_names_variable(node) and all(p in idle for p in sources):
                idle.add(node)
            found = first
            for source in sources:
                if source not in idle:
                    hop = (source in on_host) is not (node in on_host)
                    found = max(found, level[source] + hop)
            if node not in on_host:
                for edge in node.inputs:
                    if edge in decided and edge.node not in idle:
                        found = max(found, level[edge.node] + 1)
            level[node] = found
    groups: dict[tuple[int, bool], list[Node]] = {}
    for node in form.nodes:
        groups.setdefault((level[node], node in on_host), []).append(node)
    return sorted(groups.items(), key=lambda item: item[0])


def _only_names_variable(node: Node) -> bool:
    return is_variable(node) or (node.type == "Identity" and is_variable_edge(Edge(node, 0)))
