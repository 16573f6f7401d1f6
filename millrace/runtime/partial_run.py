"""A step whose feeds arrive in parts (`Session.partial_run`): where its ends are in a plan.

Both backends have it: the one of this process, and a master's session. A tensor can be fed once. It
knows which arguments, stages and results the tensors of the program are; who has it waits for the
stages, and says what happens when they fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from millrace.core import errors
from millrace.core.value import Value
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.runtime.executor import Execution


class PartialRun:
    """What is known of such a step.

    Args:
      execution: The run of the plan.
      feeds: Which argument of the plan each fed tensor is.
      fetches: In the order of the plan's results.
      targets: Which target of the plan each operation is.

    Attributes:
      execution: The run of the plan.
      feeds: What has not been fed yet.
    """

    def __init__(
        self,
        execution: Execution,
        feeds: Mapping[Tensor, int],
        fetches: Sequence[Tensor],
        targets: Mapping[Operation, int],
    ) -> None:
        self.execution = execution
        self.feeds = dict(feeds)
        self._all_feeds = frozenset(feeds)
        self._fetches = {tensor: i for i, tensor in enumerate(fetches)}
        self._targets = targets

    def check_feeds(self, tensors: Iterable[Tensor]) -> None:
        """Raises InvalidArgumentError if one of the tensors cannot be fed now."""
        for tensor in tensors:
            if tensor not in self.feeds:
                why = (
                    "has already been fed."
                    if tensor in self._all_feeds
                    else "was not specified in partial_run_setup."
                )
                raise errors.InvalidArgumentError(None, tensor.op, f"The feed {tensor.name} {why}")

    def provide(self, values: Mapping[Tensor, Value]) -> None:
        """Feeds tensors."""
        for tensor, value in values.items():
            self.execution.provide(self.feeds.pop(tensor), value)

    def stages(self, fetches: Sequence[Tensor], targets: Sequence[Operation]) -> list[int | None]:
        """What has to run for these."""
        plan = self.execution.plan
        return [
            *(plan.result_stages[self._fetches[tensor]] for tensor in fetches),
            *(plan.target_stages[self._targets[op]] for op in targets),
        ]

    def results(self, fetches: Sequence[Tensor]) -> list[Value]:
        """The values of what has run, where they are."""
        slots = self.execution.plan.result_slots
        return [self.execution.values[slots[self._fetches[tensor]]] for tensor in fetches]
