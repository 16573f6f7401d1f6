"""What the cluster does for a step, as the runtime sees it: interfaces that `server/` implements.

A step in one process has none of them. Nothing here knows tasks, channels or threads.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from millrace.core.value import Value

if TYPE_CHECKING:
    from millrace.passes.node import Node
    from millrace.protocol.step.applied_steps import Effect, StepAttempt
    from millrace.runtime.future import Future
    from millrace.runtime.step import Step


class Exchange(Protocol):
    """Sends values to the other tasks of a step, and receives theirs."""

    @property
    def last(self) -> list[Value]:
        """What goes to the master with the message that the partition is done."""

    def send_last(self, tensors: list[Value]) -> None:
        """Sends values to the master's task with the message that says that this one is done."""

    def send(self, to: str, key: int, tensors: list[Value], tag: bytes = b"") -> None:
        """Sends values to a task; `tag` tells iterations of a loop apart."""

    def receive(self, source: str, key: int, tag: bytes = b"") -> list[Value] | Future:
        """The values that a task sends under a key, or a Future of them."""

    def put(self, node: Node, key: str, tensor: object) -> None:
        """Keeps a value for a task that asks for it with TensorFlow's `RecvTensor`."""

    def fetch(self, node: Node, key: str) -> Value | Future:
        """A value that another task keeps, or a Future of it."""


class EffectRecord(Protocol):
    """Decides what an attempt of a numbered step changes."""

    @property
    def attempt(self) -> StepAttempt:
        """Which attempt of which step it is."""

    def run(
        self,
        effect: Effect,
        run: Callable[[list[Value], Step], list[Value] | Future],
        inputs: list[Value],
        step: Step,
    ) -> list[Value] | Future:
        """Runs a stage, or hands out what it made in an earlier attempt."""


class Gate(Protocol):
    """Where a run of a partition passes before it changes variables."""

    def try_enter(self) -> bool:
        """Whether it may change variables now."""

    def enter(self, run: Callable[[], list[Value] | Future], step: Step) -> Future | None:
        """None if it may change variables now; else what will have the outputs of the stage."""

    def over(self, is_done: bool) -> None:
        """The run has ended."""


class MessageReader(Protocol):
    """Reads the channels that may bring what a thread waits for."""

    def wake(self) -> None:
        """Makes the thread look whether its wait is over."""

    def wait(self, seconds: float, is_over: Callable[[], object]) -> bool:
        """Reads until the wait is over or time has passed; False if others read."""

    def following(self) -> AbstractContextManager[None]:
        """While the thread waits to be told."""
