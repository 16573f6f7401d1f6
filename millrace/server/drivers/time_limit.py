"""Calls of other tasks that take too long: a fault of the cluster, from which sessions recover.

The limits are high, because a caller of a task that is gone is told so much sooner
(`rpc.service.Connection.call`): a task that is there is waited for, also on a machine whose cores
are all busy. To give up early would only mean to begin again, with more work for everybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millrace.core import errors


@contextmanager
def within(seconds: float, who: str, what: str) -> Iterator[None]:
    """Makes a time-out of a call an UnavailableError.

    Args:
      seconds: How long the call may take.
      who: The task that is called.
      what: What it is to do.

    Raises:
      UnavailableError: The call took longer. DeadlineExceededError would be the program's own, of
        a step with a time limit, and end the training.
    """
    try:
        yield
    except errors.DeadlineExceededError:
        raise errors.UnavailableError(
            None,
            None,
            f"{who} is there, but did not {what} within {seconds:g} s: its machine is very busy, "
            "or its interpreter is. Check what else runs there.",
        ) from None
