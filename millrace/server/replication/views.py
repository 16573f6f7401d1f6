"""Where the view of a task is kept: a register of another process, changed by compare-and-set.

Its keeper must not be one of the two replicas: the launcher of the job does, or a task that
`MILLRACE_VIEWS` names.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from typing import NamedTuple

from millrace.core import errors
from millrace.platform import logging
from millrace.platform.wait_reporter import WaitReporter
from millrace.protocol.replication.view import View
from millrace.rpc.security import Security
from millrace.rpc.service import Connection

#: The environment variable that says where views are kept.
VARIABLE = "MILLRACE_VIEWS"
_CALL_SECONDS = 1.0
_AGAIN_SECONDS = 0.1


def name_of(task: str) -> str:
    """The register that has the view of a task."""
    return f"view of {task}"


class _Reading(NamedTuple):
    view: View | None
    version: int
    done: bool


class Views:
    """The view of one task.

    Args:
      task: The task's name.
      address: Who keeps it.
      security: The job's keys.
    """

    def __init__(self, task: str, address: str, security: Security) -> None:
        self._name = name_of(task)
        self.address = address
        self._security = security
        self._connection: Connection | None = None
        self._stopped = threading.Event()

    def read(self) -> View | None:
        """What the register holds; waits until it answers.

        Raises:
          CancelledError: Nobody wants to know any more.
        """
        return self._until_answered(lambda: self._ask({})).view

    def propose(self, view: View) -> View | None:
        """Replaces the view before this one, if that is what there is; what there is then."""
        found = self._until_answered(lambda: self._ask({}))
        before = 0 if found.view is None else found.view.number
        if found.view is not None and before != view.number - 1:
            return found.view
        content = base64.b64encode(view.encode()).decode()
        written = self._until_answered(
            lambda: self._ask({"content": content, "version": found.version})
        )
        return written.view

    def close(self) -> None:
        """Waits for nothing any more."""
        self._stopped.set()
        if self._connection is not None:
            self._connection.close()

    def _until_answered(self, ask: Callable[[], _Reading]) -> _Reading:
        reporter = WaitReporter("A replica has waited")
        while not self._stopped.is_set():
            try:
                return ask()
            except (errors.UnavailableError, errors.DeadlineExceededError) as error:
                logging.debug("The view of %s cannot be read: %s", self._name, error)
                reporter.tell(lambda: f"the {self._name}, which {self.address} keeps")
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                self._stopped.wait(_AGAIN_SECONDS)
        raise errors.CancelledError(None, None, "The replica was stopped.")

    def _ask(self, more: dict[str, object]) -> _Reading:
        if self._connection is None:
            self._connection = Connection(self.address, self._security)
        question = json.dumps({"name": self._name, **more}).encode()
        answer = json.loads(self._connection.register(question, _CALL_SECONDS))
        content = answer["content"]
        view = None if content is None else View.decode(base64.b64decode(content))
        return _Reading(view, int(answer["version"]), bool(answer["done"]))
