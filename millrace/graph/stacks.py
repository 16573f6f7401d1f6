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
        #: Whether leaving out of order is an error.
        self.enforce_nesting = True

    def get(self) -> Any:
        """The innermost default, or None."""
        return self.items[-1] if self.items else None

    def reset(self) -> None:
        """Forgets every default of this thread."""
        self.items = []

    @contextlib.contextmanager
    def push(self, item: Any) -> Iterator[Any]:
        """Makes `item` the default inside the ``with`` block."""
        self.items.append(item)
        try:
            yield item
        finally:
            if self.items:
                if self.enforce_nesting:
                    if self.items[-1] is not item:
                        raise AssertionError(
                            f"Nesting violated for default stack of {type(item)} objects"
                        )
                    self.items.pop()
                elif item in self.items:
                    self.items.remove(item)


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
