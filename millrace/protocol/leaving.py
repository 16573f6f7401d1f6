"""Which tasks have left the job well: events in, verdicts out.

A task that only serves (a ps) is not needed any more when every task that it serves has left. A
new session does not wait for a task that has left, unless its graph names it. A task that died, or
has not come yet, has not left: it may come, and needs the tasks that it finds.
"""

from __future__ import annotations

from collections.abc import Iterable


class LeavingTasks:
    """The tasks of a job as one of them knows them, by address.

    Args:
      served: The tasks that this one serves: those of other jobs.
      others: All tasks that it hears of; the served ones by default.
    """

    def __init__(self, served: Iterable[str], others: Iterable[str] = ()) -> None:
        self._served = frozenset(served)
        self._known = self._served | frozenset(others)
        self._left: set[str] = set()

    def left(self, address: str) -> None:
        """A task says that it has ended well."""
        if address in self._known:
            self._left.add(address)

    def came(self, address: str) -> None:
        """A task begins a session, so it is there, even if it had left before."""
        self._left.discard(address)

    @property
    def gone(self) -> list[str]:
        """The tasks that have left."""
        return sorted(self._left)

    @property
    def is_over(self) -> bool:
        """Whether all served tasks have left; a task that serves nobody waits for nobody."""
        return bool(self._served) and self._served <= self._left
