"""Which round of synchronous training a chief closes next, where rounds outlive a fault."""

from __future__ import annotations

from collections.abc import Sequence


def round_to_close(steps: Sequence[int], began_at: int) -> int:
    """The round that may not have been closed on every task.

    When a gradient was taken, an accumulator is at the step after its round: that round was begun,
    and may be over. To close it again is to do what is missing of it.

    Args:
      steps: The steps of all accumulators.
      began_at: The step of the first round since accumulators were emptied.
    """
    return max(max(steps) - 1, began_at)


def oldest_round(closing: int) -> int:
    """The round before which a task need not remember any, while one is being closed.

    The one before it is remembered: another task may not have begun this one.
    """
    return max(closing - 1, 0)
