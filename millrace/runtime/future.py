"""A value that is not there yet: what a blocking kernel returns instead of waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from millrace.core.value import Value


class Future:
    """Set once, from any thread; calls its callbacks immediately when already set.

    Blocking kernels return one so that no thread has to wait with them.
    """

    __slots__ = ("_callbacks", "_convert", "_lock", "_outcome", "_waits_for")

    def __init__(self, waits_for: str | Callable[[], str] = "") -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Future], None]] = []
        #: None while unset, else (value, error) of which one is None.
        self._outcome: tuple[Any, BaseException | None] | None = None
        self._waits_for = waits_for
        self._convert: Callable[[Any], Any] | None = None

    @property
    def waits_for(self) -> str:
        """What is waited for now, in words; shown when a wait lasts."""
        words = self._waits_for
        return words if isinstance(words, str) else words()

    def set_result(self, value: object, error: BaseException | None = None) -> bool:
        """Gives the value, or an error. False when one of them was there before."""
        with self._lock:
            if self._outcome is not None:
                return False
            self._outcome = value, error
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)
        return True

    def set_error(self, error: BaseException) -> bool:
        """Gives an error. False when a value or an error was there before."""
        return self.set_result(None, error)

    @property
    def done(self) -> bool:
        """Whether it is set."""
        return self._outcome is not None

    @property
    def failed(self) -> bool | None:
        """Whether it is set to an error; None while it is not set."""
        return None if self._outcome is None else self._outcome[1] is not None

    def result(self) -> Value:
        """The value, or raises the error. Must be done."""
        assert self._outcome is not None
        value, error = self._outcome
        if error is not None:
            raise error
        return value if self._convert is None else self._convert(value)

    def then(self, convert: Callable[[Value], Value]) -> Future:
        """Lets `result` give what a function makes of the value; returns itself.

        For the one that was handed it, before it is handed on.
        """
        self._convert = convert
        return self

    def add_callback(self, callback: Callable[[Future], None]) -> None:
        """Calls `callback(self)` when set, in the setter's thread."""
        with self._lock:
            if self._outcome is None:
                self._callbacks.append(callback)
                return
        callback(self)
