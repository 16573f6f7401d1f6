"""What a session runs last, so that nobody waits for it when a program has come to its good end.

That is when the session is closed, or when the process ends and it is still open. Not when an
exception is the reason: then the task may be started again, and go on. It is run once, and
nobody waits long for it.
"""

from __future__ import annotations

import atexit
import sys
import weakref
from typing import Any

from millrace.core.config import RunOptions
from millrace.platform import logging

#: How long it may take.
MILLISECONDS = 2000


class LastOperation:
    """The last operation of a session.

    Args:
      session: A `tf.Session`; it is not kept alive.
      operation: What to run in it.
    """

    def __init__(self, session: Any, operation: Any) -> None:
        self._session = weakref.ref(session)
        self._operation = operation
        self._has_run = False
        session._before_close(self.run)
        atexit.register(self.run)

    def run(self) -> None:
        """Runs the operation, unless it was run or an exception is the end."""
        session = self._session()
        atexit.unregister(self.run)
        if self._has_run or session is None or session._closed:
            return
        if sys.exc_info()[0] is not None or getattr(sys, "last_value", None) is not None:
            return
        self._has_run = True
        try:
            session.run(self._operation, options=RunOptions(timeout_in_ms=MILLISECONDS))
        except Exception as error:
            logging.vlog(1, "Ignored exception: %s", error)
