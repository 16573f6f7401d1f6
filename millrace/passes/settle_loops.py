"""Where loops of TensorFlow 1.x run that lie on several tasks.

A loop goes to the one task whose state it needs, or to the one that has most of it. If it needs
state of several tasks, each of them runs its share (`split_loops.py`).
"""

from __future__ import annotations

from millrace.core.device_spec import task_of
from millrace.passes import frames
from millrace.passes.node import Node, Program
from millrace.passes.schedule import writes_state
from millrace.passes.split_loops import LoopSplitter, groups_of_loops, settle_handles
from millrace.passes.transfer import LOOP_RECEIVE


def settle_loops(program: Program) -> Program:
    """Moves each TensorFlow 1.x loop to one task, or splits it over those whose state it needs.

    Raises:
      UnimplementedError: A loop that needs state of several tasks has no condition.
      InvalidArgumentError: A handle would have to go to another task.
    """
    if not frames.has_control_flow(program) or len(program.tasks()) < 2:
        return program
    if any(node.definition is LOOP_RECEIVE for node in program.nodes):
        return program  # It is done already.
    program = program.copy()
    task = {node: task_of(node.device) for node in program.nodes}
    if program.setting.feeds_one_by_one:
        task.update((edge.node, program.setting.home) for edge in program.arguments)
    names = {node.name for node in program.nodes}

    def unique(name: str) -> str:
        while name in names:
            name += "_"
        names.add(name)
        return name

    order = frames.order(program)
    settle_handles(order, task)
    splitter: LoopSplitter | None = None
    for nodes in groups_of_loops(order).values():
        bound = {task[node] for node in nodes if _holds_state(node)}
        if len(bound) > 1:
            if splitter is None:
                splitter = LoopSplitter(program, task, unique)
            splitter.split(nodes)
            continue
        count = {t: sum(task[n] == t for n in nodes) for t in (task[node] for node in nodes)}
        chosen = next(iter(bound)) if bound else max(count, key=lambda t: count[t])
        for node in nodes:
            task[node] = chosen
    devices = {task_of(device): device for device in reversed(program.setting.devices)}
    for node in program.nodes:
        if task_of(node.device) != task[node]:
            node.device = devices.get(task[node], task[node])
    return program


def _holds_state(node: Node) -> bool:
    return (
        node.definition.is_stateful
        or node.definition.kind == "blocking"
        or writes_state(node)
        or any(edge.dtype._is_ref_dtype or edge.dtype.name == "resource" for edge in node.inputs)
    ) and not node.type.startswith(("TensorArray", "Stack"))
