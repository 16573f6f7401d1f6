"""A program that is cut at the borders of tasks, taken apart: one program per task.

Nothing is decided here. What each task runs follows from the devices of the nodes, and what it
sends and receives from the transfers that passes have put in.
"""

from __future__ import annotations

from millrace.core.device_spec import task_of
from millrace.passes.node import Node, Program
from millrace.passes.transfer import BEGINS, LOOP_SEND, RECEIVE, SEND


class Partition:
    """What one task runs of a step.

    Attributes:
      task: The task.
      program: Its program.
      arguments: Positions, among the whole program's arguments, of this program's.
      results: Positions, among the whole program's results, of this program's.
      targets: The same for targets.
      sends_to: The tasks that it sends something to.
      last_key: The key of what it sends to `home` with the message that it is over, if it does.
      first_key: The key of what `home` sends it to begin with; None if it begins immediately.
      read_keys: The keys of what it sends to `home` when asked for it.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.program = Program([], [], [], [])
        self.arguments: list[int] = []
        self.results: list[int] = []
        self.targets: list[int] = []
        self.sends_to: list[str] = []
        self.last_key: int | None = None
        self.first_key: int | None = None
        self.read_keys: list[int] = []


def split(program: Program) -> dict[str, Partition]:
    """The partitions of a program by task; there is always one for the program's home."""
    home = program.setting.home
    partitions = {home: Partition(home)}
    tasks = {node: task_of(node.device) for node in program.nodes}
    for node, task in tasks.items():
        partitions.setdefault(task, Partition(task)).program.nodes.append(node)
    # Arguments and constants are everywhere; results that are such come from home.
    for i, edge in enumerate(program.results):
        partition = partitions[tasks.get(edge.node, home)]
        partition.results.append(i)
        partition.program.results.append(edge)
    for i, node in enumerate(program.targets):
        partition = partitions[tasks.get(node, home)]
        partition.targets.append(i)
        partition.program.targets.append(node)
    for partition in partitions.values():
        _give_arguments(partition, program)
        for node in partition.program.nodes:
            _note_transfer(partition, node, home)
    return partitions


def _give_arguments(partition: Partition, program: Program) -> None:
    """Each task gets the values that it needs; in a partial run, home gets all."""
    given = {edge.node for edge in program.arguments}
    if program.setting.feeds_one_by_one:
        used = given if partition.task == program.setting.home else set()
    else:
        used = {e.node for node in partition.program.nodes for e in node.inputs}
        used |= {e.node for e in partition.program.results}
    for i, edge in enumerate(program.arguments):
        if edge.node in used:
            partition.arguments.append(i)
            partition.program.arguments.append(edge)


def _note_transfer(partition: Partition, node: Node, home: str) -> None:
    attrs = node.attrs
    if node.definition in (SEND, LOOP_SEND):
        to = attrs["to"].decode()
        if to not in partition.sends_to:
            partition.sends_to.append(to)
    if node.definition is SEND and attrs["last"]:
        partition.last_key = attrs["key"]
    if node.definition is SEND and attrs["on_request"] and attrs["to"].decode() == home:
        partition.read_keys.append(attrs["key"])
    if node.definition is RECEIVE and attrs.get(BEGINS):
        partition.first_key = attrs["key"]
    if node.definition in (SEND, RECEIVE, LOOP_SEND):
        partition.program.targets.append(node)
