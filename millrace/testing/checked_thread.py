"""A thread whose exceptions fail the test that started it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any


class CheckedThread:
    """Runs a function in a thread; `join` fails the test case if the function raised."""

    def __init__(
        self,
        testcase: Any,
        target: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        self._testcase = testcase
        self._target = target
        self._args = args or ()
        self._kwargs = kwargs or {}
        self._thread = threading.Thread(target=self._protected_run, daemon=True)
        self._error: BaseException | None = None
        self._joined = False

    @property
    def name(self) -> str:
        """The thread's name."""
        return self._thread.name

    def _protected_run(self) -> None:
        try:
            self._target(*self._args, **self._kwargs)
        except BaseException:
            self._error = sys.exc_info()[1]

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def join(self) -> None:
        """Waits for the thread, and fails the test if its function raised."""
        self._joined = True
        self._thread.join()
        if self._error is not None:
            self._testcase.fail(f"Error in checkedThread: {self._error!r}")

    def is_alive(self) -> bool:
        """Whether the function is still running."""
        return self._thread.is_alive()

    def check_termination(self) -> None:
        """Fails the test unless the thread was joined.

        Raises:
          RuntimeError: It was joined, and runs nevertheless.
        """
        if not self._joined:
            self._testcase.fail("A checked thread was not joined.")
        if self.is_alive():
            raise RuntimeError(
                "Thread was not joined with main thread, and is still running when the test "
                "finished."
            )
