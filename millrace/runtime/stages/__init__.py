"""Which stage a group of nodes becomes: the first row of `TABLE` that applies.

To add a stage: write it in a module here (`runtime/stage.py` says what it must have), and put a row
where it belongs. `docs/architecture.md` shows the table; `make docs` copies it from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from millrace.passes import schedule
from millrace.passes.frames import REGION, WAITING_REGION
from millrace.passes.function_body import functions_of
from millrace.passes.join_accumulators import JoinedNode, absorbed_handles
from millrace.passes.node import Edge, Node, Program, is_variable_edge
from millrace.passes.rendezvous import may_die
from millrace.passes.transfer import RECEIVE, SEND
from millrace.runtime.compiled_stage import CompiledStage
from millrace.runtime.interpreter import RegionStage
from millrace.runtime.stage import Stage
from millrace.runtime.stages import rows
from millrace.runtime.stages.accumulate import gradients_stage
from millrace.runtime.stages.control import function_stage
from millrace.runtime.stages.host import HostStage
from millrace.runtime.stages.queue import handle_stage
from millrace.runtime.stages.transfer import ReceiveStage, SendStage, can_send
from millrace.runtime.stages.update import AssignStage, CountStage, is_counter, is_small_assignment

if TYPE_CHECKING:
    from millrace.runtime.plan import Plan


class Surroundings:
    """What is known of the program around a group of nodes.

    Attributes:
      make_plan: Makes the plans of functions that nodes call.
      outside: Edges whose values leave the group that makes them.
      uses: How often each value is used.
      owned: Values whose memory is that of the one that uses them.
      in_rows: Nodes that take, update or join rows of large tables.
      absorbed: Nodes that only name a queue or an accumulator, and are in no group.
      rows_of: For a send, the node whose rows are made right in its message.
    """

    def __init__(
        self,
        program: Program,
        groups: Sequence[schedule.Stage],
        make_plan: Callable[[Program], Plan],
    ) -> None:
        self.make_plan = make_plan
        self.outside = _edges_that_leave(program, groups)
        self.uses = Counter(edge for node in program.nodes for edge in node.inputs)
        self.uses.update(program.results)
        self.owned = frozenset(
            edge for edge, n in self.uses.items() if n == 1 and edge.node.type == "RestoreV2"
        )
        self.in_rows = rows.nodes_in_rows(program)
        self.absorbed = absorbed_handles(program)
        self.rows_of: dict[Node, Node] = {}
        if not may_die(program):
            grouped = {node for group in groups for node in group.nodes}
            self.rows_of = rows.made_for_sends(program, self.in_rows, grouped, self.uses)


class Group(NamedTuple):
    """Nodes that become one stage, and what is around them."""

    nodes: list[Node]
    is_compiled: bool
    host_nodes: set[Node]
    name: str
    around: Surroundings

    @property
    def first(self) -> Node:
        """The first of the nodes; a host group has no other."""
        return self.nodes[0]

    @property
    def wanted(self) -> list[Edge]:
        """The values of the nodes that others take."""
        return [
            edge
            for node in self.nodes
            for i in range(len(node.output_types))
            if (edge := Edge(node, i)) in self.around.outside
        ]


class Row(NamedTuple):
    """One row of the table: what a group is, how to tell, and the stage that it becomes."""

    what: str
    applies: Callable[[Group], bool]
    make: Callable[[Group], Stage | None]


def _is_single(group: Group) -> bool:
    return group.is_compiled and len(group.nodes) == 1


#: The first row that applies decides.
TABLE: tuple[Row, ...] = (
    Row(
        "a variable that is assigned a small value of the host",
        lambda g: _is_single(g) and is_small_assignment(g.first),
        lambda g: AssignStage(g.first, g.wanted, g.name),
    ),
    Row(
        "an integer that is counted up or down",
        lambda g: _is_single(g) and is_counter(g.first, g.wanted),
        lambda g: CountStage(g.first, g.wanted, g.name),
    ),
    Row(
        "any pure nodes",
        lambda g: g.is_compiled,
        lambda g: CompiledStage(g.nodes, g.wanted, g.name, g.around.owned, host_nodes=g.host_nodes),
    ),
    Row(
        "a region of TensorFlow 1.x control flow",
        lambda g: g.first.definition in (REGION, WAITING_REGION),
        lambda g: RegionStage(g.first),
    ),
    Row(
        "rows that are made in a message: their send makes them",
        lambda g: g.first in g.around.rows_of.values(),
        lambda g: None,
    ),
    Row(
        "a send that makes rows in its message",
        lambda g: g.first in g.around.rows_of,
        lambda g: rows.sent_rows(g.around.rows_of[g.first], g.first, g.around.outside, g.name),
    ),
    Row(
        "rows of a large table that are taken, updated, summed or joined",
        lambda g: g.first in g.around.in_rows,
        lambda g: rows.row_stage(g.first, g.around.outside, g.name),
    ),
    Row(
        "a branch or loop with state",
        lambda g: bool(functions_of(g.first)),
        lambda g: function_stage(g.first, g.around.make_plan),
    ),
    Row(
        "a receive",
        lambda g: g.first.definition is RECEIVE,
        lambda g: ReceiveStage(g.first),
    ),
    Row(
        "a send of arrays and variables",
        lambda g: g.first.definition is SEND and can_send(g.first),
        lambda g: SendStage(g.first),
    ),
    Row(
        "gradients that go into accumulators, or out of them",
        lambda g: isinstance(g.first, JoinedNode),
        lambda g: gradients_stage(g.first, g.around.uses.__getitem__),
    ),
    Row(
        "a queue or accumulator that its user looks up",
        lambda g: bool(g.first.inputs) and g.first.inputs[0].node in g.around.absorbed,
        lambda g: handle_stage(g.first),
    ),
    Row(
        "any other node",
        lambda g: True,
        lambda g: HostStage(g.first, g.around.outside, g.around.make_plan),
    ),
)


def stages_of(program: Program, make_plan: Callable[[Program], Plan]) -> list[Stage]:
    """The stages of a program whose nodes are grouped, in an order that works if none waits."""
    assert program.stages is not None
    around = Surroundings(program, program.stages, make_plan)
    found: list[Stage] = []
    for i, each in enumerate(program.stages):
        group = Group(each.nodes, each.compiled, each.host_nodes, f"stage_{i}", around)
        stage = next(row.make(group) for row in TABLE if row.applies(group))
        if stage is not None:
            found.append(stage)
    return found


def _edges_that_leave(program: Program, groups: Sequence[schedule.Stage]) -> set[Edge]:
    """Edges whose values are wanted outside of the group that makes them."""
    home = {node: group for group in groups for node in group.nodes}
    found = set(program.results)
    for group in groups:
        for node in group.nodes:
            for edge in node.inputs:
                # A variable's identity needs no slot; its value is read where it is used.
                if home.get(edge.node) is not group and not is_variable_edge(edge):
                    found.add(edge)
    return found
