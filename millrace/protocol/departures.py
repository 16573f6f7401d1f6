"""Who has left a job for good: events in, and whether it is over.

A task that only serves (a ps) is not needed any more when every task that it serves has ended well.
One that died, or has not come yet, has not left: it may come, and needs whom it finds.
"""

from __future__ import annotations

from collections.abc import Iterable


class Departures:
    """The tasks that one task serves, by address."""

    def __init__(self, served: Iterable[str]) -> None:
        self._staying = set(served)
        self._served = frozenset(self._staying)

    def left(self, address: str) -> None:
        """A task says that it has ended well."""
        self._staying.discard(address)

    def came(self, address: str) -> None:
        """A task begins a session: also one that had left is there."""
        if address in self._served:
            self._staying.add(address)

    @property
    def is_over(self) -> bool:
        """Whether all have left; a task that serves nobody waits for nobody."""
        return bool(self._served) and not self._staying
