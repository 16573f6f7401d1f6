"""Calls that may block for ever (a queue that nobody fills) end in a failure, not in a hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

SECONDS = 120.0


def within_deadline(call: Callable[[], Result], seconds: float = SECONDS) -> Result:
    """Call a function in a thread of its own, and wait for it no longer than this.

    Raises:
        AssertionError: it is still running. The thread is abandoned: there is no way to stop it.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="parity-scenario", daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"still running after {seconds} s: a step blocks for ever"
    if errors:
        raise errors[0]
    return results[0]
