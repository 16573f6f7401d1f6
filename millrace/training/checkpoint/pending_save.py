"""A save that goes on in a thread of its own while its session trains.

`begin` returns when the values that are saved are fixed: on a cluster when the cut is taken, in one
process when the snapshot is. From then on updates do not change what is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from millrace.client.session import BaseSession
from millrace.server.drivers import current_attempt


class PendingSave:
    """One save.

    A session that is closed, also because a step of it has failed, waits for it.

    Args:
      session: The session that has the variables.
      save: Saves, and returns what `tf.train.Saver.save` does.
    """

    def __init__(self, session: BaseSession, save: Callable[[], str | None]) -> None:
        self._session = session
        self._save = save
        self._is_fixed = threading.Event()
        self._is_done = threading.Event()
        self._path: str | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="millrace saves a checkpoint")

    def begin(self) -> PendingSave:
        """Begins, and waits until the values are fixed."""
        self._session._before_close(self._wait)
        self._thread.start()
        self._is_fixed.wait()
        return self

    def _run(self) -> None:
        current_attempt.when_cut(self._is_fixed.set)
        try:
            self._path = self._save()
        except BaseException as error:
            self._error = error
        finally:
            current_attempt.when_cut(None)
            self._session._not_before_close(self._wait)
            self._is_done.set()
            self._is_fixed.set()

    def _wait(self) -> None:
        self._is_done.wait()

    @property
    def done(self) -> bool:
        """Whether the checkpoint is safe, or has failed."""
        return self._is_done.is_set()

    def result(self, timeout: float | None = None) -> str | None:
        """What to hand to `tf.train.Saver.restore`, once it is safe.

        Args:
          timeout: How many seconds to wait for it; None for as long as it takes.

        Raises:
          TimeoutError: It is not safe yet.
          OpError: The save has failed.
        """
        if not self._is_done.wait(timeout):
            raise TimeoutError(f"The checkpoint is not written after {timeout} s.")
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._path
