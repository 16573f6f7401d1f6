"""A task that takes too long is a fault of the cluster, not of the program's own time limit."""

from __future__ import annotations

import pytest

from millrace.core import errors
from millrace.server.drivers.time_limit import within


def test_a_timeout_becomes_unavailable_and_names_the_task() -> None:
    told = pytest.raises(errors.UnavailableError, match=r"ps0 is there.*register.*2\.5 s")
    with told, within(2.5, "ps0", "register a graph"):
        raise errors.DeadlineExceededError(None, None, "too late")


def test_other_errors_pass() -> None:
    with pytest.raises(errors.AbortedError), within(1.0, "ps0", "answer"):
        raise errors.AbortedError(None, None, "restarted")
