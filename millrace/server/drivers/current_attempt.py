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
    #: Told when the next run of a step that reads a cut has its cut.
    on_cut: Callable[[], None] | None = None


_current = _Current()


class UnrepeatedSteps:
    """Numbers steps that nobody repeats, so that tasks know them and which of them are over.

    Args:
      client: A number that no other client has.
    """

    def __init__(self, client: int) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._last = 0
        self._open: set[int] = set()

    def begin(self) -> StepAttempt:
        """A step begins; its attempt has the number 0, since there is no other."""
        with self._lock:
            self._last += 1
            self._open.add(self._last)
            return StepAttempt(self._client, self._last, min(self._open), 0)

    def oldest(self) -> tuple[int, int]:
        """The client, and the oldest of its steps that may not be over."""
        with self._lock:
            return self._client, min(self._open, default=self._last + 1)

    def over(self, attempt: StepAttempt) -> None:
        """A step has ended."""
        with self._lock:
            self._open.discard(attempt.step)


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


def when_cut(tell: Callable[[], None] | None) -> None:
    """Has somebody told when a run of this thread that reads a cut has it; None for nobody."""
    _current.on_cut = tell


def cut_taken() -> None:
    """The run of this thread that reads a cut has it."""
    tell, _current.on_cut = _current.on_cut, None
    if tell is not None:
        tell()
