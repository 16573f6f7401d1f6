"""Which attempt of a numbered step the next run of this thread is, if any.

A supervised session says so, some layers above the backend that runs the step: TensorFlow's
`Session.run` has no argument for it. Only one run takes it: what hooks run beside the step is no
part of it.
"""

from __future__ import annotations

import threading

from millrace.protocol.step.applied_steps import StepAttempt


class _Current(threading.local):
    attempt: StepAttempt | None = None


_current = _Current()


def put(attempt: StepAttempt | None) -> None:
    """The next run of this thread is this attempt; None for none."""
    _current.attempt = attempt


def take() -> StepAttempt | None:
    """The attempt that this run is; the next one is none."""
    attempt, _current.attempt = _current.attempt, None
    return attempt
