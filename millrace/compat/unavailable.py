"""Parts of TensorFlow that Millrace does not have and that libraries import before they need them.

Everything below such a path can be imported, and classes can be derived from it, so that the rest
of a library works. A call says what is missing.
"""

from __future__ import annotations

import types
from typing import Any, NoReturn

#: Paths below ``tensorflow``, and why nothing below them is here.
REASONS = {
    "python.autograph": "Python's own control flow is not translated; build graphs with tf.cond "
    "and tf.while_loop"
}


class _UnavailableType(type):
    """Classes whose attributes are unavailable, too, and that cannot be called."""

    path: str
    reason: str

    def __getattr__(cls, name: str) -> _UnavailableType:
        if name.startswith("__"):
            raise AttributeError(name)
        return _UnavailableType(name, (), {"path": f"{cls.path}.{name}", "reason": cls.reason})

    def __call__(cls, *args: Any, **keywords: Any) -> NoReturn:
        """Refuses.

        Raises:
          NotImplementedError: Always.
        """
        raise NotImplementedError(f"tensorflow.{cls.path} is not in Millrace: {cls.reason}")


class UnavailableModule(types.ModuleType):
    """A module of such a part."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"tensorflow.{path}", f"Not in Millrace: {reason}.")
        self.__path__: list[str] = []
        self._path, self._reason = path, reason

    def __getattr__(self, name: str) -> _UnavailableType:
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        return _UnavailableType(name, (), {"path": path, "reason": self._reason})


def find(path: str) -> UnavailableModule | None:
    """The module at a path below ``tensorflow``, if it is in a part that is not here."""
    for part, reason in REASONS.items():
        if path.startswith(f"{part}."):
            return UnavailableModule(path, reason)
    return None
