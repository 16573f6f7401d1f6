"""All passes, in the order in which they run: the one place that says what becomes of a graph.

A pass is a function from a `Program` to a `Program`. It changes no program that it is given, and
gives the same result whenever it is given the same program: ties go by name, never by address.
Run on its own result it changes nothing. What it must know of the cluster is in the program's
`Setting`.

To add one: write the function in a module of its own, with a first line that says what it does (the
tables of `docs/architecture.md` are made of these lines, by `make docs`), put it where it belongs
below, and give it a test in `tests/unit/passes/`. `tests/unit/passes/test_pipeline.py` holds every
pass to the rules above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from millrace.passes.bag_rows import bag_rows
from millrace.passes.constants import bind_waiting_constants, detach_constants
from millrace.passes.deferred_partitions import defer_partitions
from millrace.passes.few_unique import few_unique
from millrace.passes.fewer_messages import dissolve_groups
from millrace.passes.frames import control_flow_regions
from millrace.passes.grouping import group_stages, order_nodes
from millrace.passes.inline import inline_calls
from millrace.passes.join_accumulators import absorb_handles, join_accumulators
from millrace.passes.node import Program
from millrace.passes.pad_unique import pad_unique
from millrace.passes.partition import partition
from millrace.passes.place import place
from millrace.passes.route_ids import route_ids
from millrace.passes.send_last import send_last
from millrace.passes.settle_loops import settle_loops
from millrace.passes.simplify import drop_unused, share_repeated

Pass = Callable[[Program], Program]

#: What a master does to the whole graph of a step, and a local session to its own.
CLUSTER: tuple[Pass, ...] = (
    inline_calls,
    place,
    few_unique,
    pad_unique,
    route_ids,
    bag_rows,
    detach_constants,
    settle_loops,
    dissolve_groups,
    partition,
    send_last,
    defer_partitions,
)

#: What a task does to its partition.
TASK: tuple[Pass, ...] = (
    inline_calls,
    control_flow_regions,
    bind_waiting_constants,
    detach_constants,
    pad_unique,
    share_repeated,
    drop_unused,
    order_nodes,
    join_accumulators,
    absorb_handles,
    group_stages,
)


def run(passes: Iterable[Pass], program: Program) -> Program:
    """The program after all of the passes."""
    for each in passes:
        program = each(program)
    return program


def for_cluster(program: Program) -> Program:
    """The program that a step of a whole cluster runs; `partitions.split` takes it apart."""
    return run(CLUSTER, program)


def for_task(program: Program) -> Program:
    """The program that one task runs, grouped into stages."""
    return run(TASK, program)
