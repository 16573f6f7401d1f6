"""Which attempt of a numbered step the next run of this thread is, if any.

A supervised session says so, some layers above the backend that runs the step: TensorFlow's
`Session.run` has no argument for it. What hooks run beside a step is no part of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable

from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.protocol.step.applied_steps import StepAttempt

#: Tells what is run which attempt it is.
Numbering = Callable[[Hashable], StepAttempt]


class _Current(threading.local):
    #: Of the next run only.
    attempt: StepAttempt | None = None
    #: Of all runs that have no attempt of their own.
    numbering: Numbering | None = None


_current = _Current()


def names_of(*parts: Iterable[Tensor | Operation]) -> tuple[str, ...]:
    """What a run is called: the names of its fetches, targets and feeds."""
    return tuple(element.name for part in parts for element in part)


def put(attempt: StepAttempt | None) -> None:
    """The next run of this thread is this attempt; None for none."""
    _current.attempt = attempt


def number(numbering: Numbering | None) -> None:
    """All runs of this thread are numbered, until this is called with None."""
    _current.numbering = numbering


def take(what: Hashable) -> StepAttempt | None:
    """The attempt that this run is.

    Args:
      what: What is run: the same in each session.
    """
    attempt, _current.attempt = _current.attempt, None
    if attempt is None and _current.numbering is not None:
        return _current.numbering(what)
    return attempt


def set_aside() -> tuple[StepAttempt | None, Numbering | None]:
    """What is run from here on has no number, until `resume` is called with the result."""
    aside = _current.attempt, _current.numbering
    _current.attempt = _current.numbering = None
    return aside


def resume(aside: tuple[StepAttempt | None, Numbering | None]) -> None:
    """Ends what `set_aside` began."""
    _current.attempt, _current.numbering = aside
