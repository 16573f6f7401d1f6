"""The last passes of a task: the order of its nodes, and which of them run as one unit.

`schedule.py` has the rules.
"""

from __future__ import annotations

from millrace.passes.node import Program
from millrace.passes.schedule import stages, topological_order


def order_nodes(program: Program) -> Program:
    """Puts each node after those that it waits for; ties go by age, then by name."""
    return program.with_nodes(topological_order(program.nodes))


def group_stages(program: Program) -> Program:
    """Groups the nodes into stages: an XLA call for as many as possible, or one host op."""
    grouped = program.with_nodes(program.nodes)
    setting = program.setting
    grouped.stages = stages(
        program,
        setting.compilable(program),
        late_arguments=setting.feeds_one_by_one,
        can_join=None if setting.joinable is None else setting.joinable(program),
    )
    return grouped
