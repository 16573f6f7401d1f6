"""Replacing attributes for the time of a test: `tf.test.StubOutForTesting`."""

from __future__ import annotations

from typing import Any


class StubOutForTesting:
    """Remembers what it replaced, and puts it back.

    In reverse order, so that an attribute that was replaced twice ends as it began.
    """

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, bool]] = []

    def __enter__(self) -> StubOutForTesting:
        return self

    def __exit__(self, *exc: object) -> None:
        self.CleanUp()

    def Set(self, parent: Any, child_name: str, new_child: Any) -> None:
        """Replaces ``parent.child_name``."""
        own = vars(parent)
        old = own[child_name] if child_name in own else getattr(parent, child_name)
        self._replaced.append((parent, child_name, old, child_name in own))
        setattr(parent, child_name, new_child)

    def SmartSet(self, obj: Any, attr_name: str, new_attr: Any) -> None:
        """Replaces an attribute that must exist.

        Raises:
          AttributeError: It does not.
        """
        if not hasattr(obj, attr_name):
            raise AttributeError(f"{obj!r} has no attribute {attr_name!r}")
        self.Set(obj, attr_name, new_attr)

    def UnsetAll(self) -> None:
        """Puts everything back."""
        while self._replaced:
            parent, name, old, was_own = self._replaced.pop()
            if was_own:
                setattr(parent, name, old)
            else:
                delattr(parent, name)

    def SmartUnsetAll(self) -> None:
        """Puts everything back."""
        self.UnsetAll()

    def CleanUp(self) -> None:
        """Puts everything back."""
        self.UnsetAll()
