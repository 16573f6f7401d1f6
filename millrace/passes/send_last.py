"""What a partition sends last to the master's task: it goes with the message that it is over.

Only when all that may take long, or wait, comes before it: else home might wait for the end of a
partition that waits for home.
"""

from __future__ import annotations

from millrace.core.device_spec import task_of
from millrace.passes.frames import has_control_flow
from millrace.passes.function_body import bodies_of
from millrace.passes.node import Node, Program, ancestors
from millrace.passes.transfer import SEND


def send_last(program: Program) -> Program:
    """Lets the last message of a partition to home go with the one that says that it is over."""
    if program.setting.feeds_one_by_one or has_control_flow(program):
        return program
    found = _last_sends(program)
    if not found:
        return program
    program = program.copy()
    for node in program.nodes:
        if node.definition is SEND and node.attrs["key"] in found:
            node.attrs = {**node.attrs, "last": True}
    return program


def _last_sends(program: Program) -> set[int]:
    """The keys of the messages that can go with the end, at most one per task."""
    home = program.setting.home
    found: dict[str, int] = {}
    for send in program.nodes:
        if send.definition is not SEND or send.attrs["to"].decode() != home:
            continue
        task = task_of(send.device)
        if task not in found and _comes_after_all(send, task, program):
            found[task] = send.attrs["key"]
    return set(found.values())


def _comes_after_all(send: Node, task: str, program: Program) -> bool:
    others = (
        node
        for node in program.nodes
        if task_of(node.device) == task
        and node.definition is not SEND
        and (bodies_of(node) or not node.definition.is_pure)
    )
    return ancestors(send).issuperset(others)
