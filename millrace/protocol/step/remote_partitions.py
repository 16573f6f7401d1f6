"""The partitions of a step that other tasks run, as the master prepares them once.

Pure data but for one thing that outlives a step: which variables the master's task may read in
shared memory, because their task has said where.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from millrace.core.positions import taker


class RemotePartition:
    """A partition that another task runs.

    Attributes:
      task: The task's name.
      peer: Its address.
      graph: The number under which the task has registered it.
      arguments: Which of the values that the client feeds it takes.
      take_feeds: Takes them.
      results: Where its results stand among what the client fetches.
      first_key: The key of what it begins with; None if it begins with the step.
      read_keys: The keys of the variables that the master's task may ask it for.
      last_key: The key of what comes with the message that it is over, if something does.
    """

    __slots__ = (
        "arguments",
        "first_key",
        "graph",
        "last_key",
        "peer",
        "read_keys",
        "results",
        "take_feeds",
        "task",
    )

    def __init__(
        self,
        task: str,
        peer: str,
        graph: int,
        *,
        arguments: Sequence[int] = (),
        results: Sequence[int] = (),
        first_key: int | None = None,
        read_keys: Sequence[int] = (),
        last_key: int | None = None,
    ) -> None:
        self.task = task
        self.peer = peer
        self.graph = graph
        self.arguments = arguments
        self.take_feeds = taker(arguments)
        self.results = results
        self.first_key = first_key
        self.read_keys = read_keys
        self.last_key = last_key

    def __repr__(self) -> str:
        return f"<RemotePartition of {self.task}>"


class RemotePartitions:
    """All partitions of a step that other tasks run.

    Attributes:
      all: The partitions.
      tasks: The tasks' names, by address.
      immediate: Those that begin with the step.
      deferred: Those that begin with what the master's task sends them, by its key.
      reads: Those that are asked for variables, by the key of these.
      last: Of those whose last message is their end: how many results come first, and the key of
        what follows; by address.
      published: The keys of the variables that can be read in shared memory.
    """

    __slots__ = (
        "all",
        "deferred",
        "immediate",
        "last",
        "published",
        "reads",
        "tasks",
    )

    def __init__(self, partitions: Iterable[RemotePartition]) -> None:
        self.all = list(partitions)
        self.tasks = {each.peer: each.task for each in self.all}
        self.immediate = [each for each in self.all if each.first_key is None]
        self.deferred = {each.first_key: each for each in self.all if each.first_key is not None}
        self.reads = {key: each for each in self.all for key in each.read_keys}
        self.last = {
            each.peer: (len(each.results), each.last_key)
            for each in self.all
            if each.last_key is not None
        }
        self.published: set[int] = set()

    @property
    def can_repeat(self) -> bool:
        """Whether one other task can repeat the step alone."""
        return len(self.all) == 1 and not self.all[0].results and not self.all[0].arguments
