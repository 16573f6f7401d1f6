"""Rounds of synchronous training that outlive a parameter server: numbered steps of the chief.

Where every parameter server has a standby, accumulators, tokens and the record of applied steps are
replicated. Then nothing of a round that a fault has interrupted need be dropped: the chief runs the
step that closes the round again under the same number, and each task does what is missing of it,
with the gradients that were taken before. It does not matter whether the chief is the same process:
the number of the round, and which attempt it is, are asked of the accumulators.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millrace.graph.defaults import device, name_scope
from millrace.graph.operation import Operation
from millrace.ops.control_flow import control_flow
from millrace.ops.data_flow.accumulators import (
    BEGAN_AT,
    BEGINNINGS,
    BEGINS_FIRST_ROUND,
    CHIEFS,
    IS_FOLLOWED,
    STEP,
)
from millrace.platform import logging
from millrace.protocol.rounds import oldest_round, round_to_close
from millrace.protocol.step.applied_steps import StepAttempt
from millrace.server.drivers import current_attempt

if TYPE_CHECKING:
    from millrace.training.replicas.sync_replicas_optimizer import SyncReplicasOptimizer


class Rounds:
    """The rounds of one training, as its chief or a worker sees them.

    Args:
      optimizer: The training's optimizer; operations are added to its graph.

    Attributes:
      are_kept: Whether a fault leaves them as they are, in the session that was asked last.
    """

    def __init__(self, optimizer: SyncReplicasOptimizer) -> None:
        ask = optimizer._ask_accumulators
        self._followed = ask("rounds_are_followed", IS_FOLLOWED)
        self._steps = ask("steps_of_rounds", STEP)
        self._beginnings = ask("beginnings_of_rounds", BEGINNINGS)
        self._began_at = ask("first_round", BEGAN_AT)[0]
        self._chiefs = ask("chiefs_of_rounds", CHIEFS)[0]
        self._names = "\n".join(a.name for a, _ in optimizer._accumulator_list)
        self._begin_first = self._first_round(optimizer)
        self.are_kept = False
        self._client = self._round = self._attempt = 0

    @staticmethod
    def _first_round(optimizer: SyncReplicasOptimizer) -> Operation:
        steps = []
        with name_scope("begin_first_round"):
            for accumulator, place in optimizer._accumulator_list:
                with device(place):
                    step = accumulator.set_global_step(optimizer._global_step)
                step._set_attr(BEGINS_FIRST_ROUND, True)
                steps.append(step)
            return control_flow.group(*steps)

    def begin_first(self, session: Any) -> bool:
        """Begins the first round of all with what workers have contributed to it already.

        Returns:
          False if there were rounds before: what is left of them is to be dropped.
        """
        if any(session.run(self._beginnings)):
            return False
        session.run(self._begin_first)
        return True

    def ask(self, session: Any) -> bool:
        """Whether every accumulator of a session is replicated."""
        # A task of TensorFlow answers with a count, which is not negative.
        self.are_kept = bool(self._followed) and all(
            answer == -1 for answer in session.run(self._followed)
        )
        return self.are_kept

    def go_on(self, session: Any) -> None:
        """This process is the chief: finds which round was not closed for certain."""
        steps, beginnings, began_at, chiefs = session.run(
            [self._steps, self._beginnings, self._began_at, self._chiefs]
        )
        told = f"{self._names}\n{beginnings[0]}".encode()
        self._client = int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "big") >> 1
        self._round = round_to_close(steps, began_at)
        self._attempt = int(chiefs)
        logging.info("Rounds go on with that of step %d (chief %d).", self._round, chiefs)

    def close(self, close_round: Callable[[], Any]) -> None:
        """Closes a round, or what is missing of it.

        Args:
          close_round: Runs the step that does so.
        """
        oldest = oldest_round(self._round)
        current_attempt.put(StepAttempt(self._client, self._round, oldest, self._attempt))
        try:
            close_round()
        finally:
            current_attempt.put(None)
        self._round += 1
