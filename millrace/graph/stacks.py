"""Per-thread stacks of default graphs and default sessions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class DefaultStack(threading.local):
    """A stack of defaults that each thread has for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[Any] = []
        #: For each item whether it may be left out of order, and others before it.
        self._loose: list[bool] = []

    def get(self) -> Any:
        """The innermost default, or None."""
        return self.items[-1] if self.items else None

    def reset(self) -> None:
        """Forgets every default of this thread."""
        self.items, self._loose = [], []

    @contextlib.contextmanager
    def push(self, item: Any, *, loose: bool = False) -> Iterator[Any]:
        """Makes `item` the default inside the ``with`` block.

        Args:
          item: The new default.
          loose: Whether it may stop being the default at any time, as an interactive session
            does when it is closed. Others must be left in the reverse order of entering.
        """
        self.items.append(item)
        self._loose.append(loose)
        try:
            yield item
        finally:
            self._remove(item)

    def _remove(self, item: Any) -> None:
        for place in reversed(range(len(self.items))):
            if self.items[place] is item:
                if not self._loose[place] and not all(self._loose[place + 1 :]):
                    raise AssertionError(
                        f"Nesting violated for default stack of {type(item)} objects"
                    )
                del self.items[place], self._loose[place]
                return


graphs = DefaultStack()
sessions = DefaultStack()


def session_for(session: Any, graph: Any, what: str) -> Any:
    """The given session, or the default one, checked to be of `graph`."""
    verb = "evaluate tensor" if what == "Tensor" else "execute operation"
    if session is None:
        session = sessions.get()
        if session is None:
            call = "eval(session=sess)" if what == "Tensor" else "run(session=sess)"
            raise ValueError(
                f"Cannot {verb} using `{call.split('(')[0]}()`: No default session is registered. "
                f"Use `with sess.as_default()` or pass an explicit session to `{call}`"
            )
        if session.graph is not graph:
            raise ValueError(
                f"Cannot use the default session to {verb}: the {what.lower()}'s graph is "
                "different from the session's graph. Pass an explicit session."
            )
    elif session.graph is not graph:
        raise ValueError(
            f"Cannot use the given session to {verb}: the {what.lower()}'s graph is different "
            "from the session's graph."
        )
    return session
