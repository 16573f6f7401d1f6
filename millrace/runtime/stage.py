"""What a plan runs as one unit.

A stage is made once, when a plan is, and run by many steps at once: it keeps nothing of a step. The
kinds of stages are in `stages/`; its table says which of them some nodes become.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from millrace.core.value import Value as Value
from millrace.passes.node import Edge, Node

if TYPE_CHECKING:
    from millrace.runtime.future import Future
    from millrace.runtime.step import Step


def positions_of(edges: Sequence[Edge], inputs: Sequence[Edge]) -> list[int]:
    """Where each of some edges stands among a stage's inputs; those that are not there are not."""
    positions = {edge: i for i, edge in enumerate(inputs)}
    return [positions[edge] for edge in edges if edge in positions]


class Stage(Protocol):
    """Nodes that run together."""

    @property
    def name(self) -> str:
        """Its name in words and traces."""

    @property
    def node(self) -> Node:
        """The node that its errors name."""

    @property
    def nodes(self) -> Sequence[Node]:
        """All nodes that run in it."""

    @property
    def inputs(self) -> Sequence[Edge]:
        """The values that it takes; variables that it reads by itself are not among them."""

    @property
    def outputs(self) -> Sequence[Edge]:
        """The values that it makes."""

    @property
    def may_block(self) -> bool:
        """Whether it may wait for something outside this step."""

    @property
    def is_short(self) -> bool:
        """Whether it never holds a thread for long: no files, no user's Python, no own wait."""

    def run(self, inputs: list[Value], step: Step) -> list[Value] | Future:
        """Runs it.

        Args:
          inputs: The values of `inputs`.
          step: The step's context: resources, cancellation, counters.

        Returns:
          The values of `outputs`; or, if it `may_block`, a Future of them.
        """
