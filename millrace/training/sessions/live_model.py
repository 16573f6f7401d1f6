"""Whether a model that a chief made ready is still where it was.

When a chief was stopped, or cut off, or a ps was, its session is lost and the model is not: then
to restore a checkpoint would throw away what the others have learned since. A chief therefore
remembers in which life each task was that holds a part of the model. One that was restarted has to
ask the tasks (`millrace.training.sessions.succession`).

A part of the program whose operations change several tasks can add a predicate of sessions to the
graph's collection CHECKS: whether they were not interrupted half-way.
"""

from __future__ import annotations

from typing import Any

from millrace.core.device_spec import DeviceSpec
from millrace.graph.graph import Graph

#: A collection of predicates of sessions; a key that is no string keeps it out of MetaGraphs.
CHECKS: Any = ("__model_checks",)


def adopt(session: Any) -> None:
    """A chief uses the model as it is in a session."""
    session._adopts_model = True


def is_adopted(session: Any) -> bool:
    """Whether a chief uses the model as it found it in a session."""
    return getattr(session, "_adopts_model", False)


class LiveModel:
    """The lives of the tasks that hold the variables of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._lives: dict[str, int] | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is something to compare with."""
        return self._lives is not None

    def remember(self, session: Any) -> None:
        """The model was made ready in this session."""
        self._lives = self.lives_in(session)

    def lives_on(self, session: Any) -> bool:
        """Whether the tasks of a new session are those that had the model."""
        return self.is_known and self.lives_in(session) == self._lives

    def is_whole(self, session: Any) -> bool:
        """Whether no part of the program finds the model changed half-way."""
        return all(check(session) for check in self._graph.get_collection(CHECKS))

    def lives_in(self, session: Any) -> dict[str, int]:
        """The incarnations of the devices that hold variables, or might."""
        holders = {
            (spec.job, spec.task)
            for variable in self._graph.get_collection("variables")
            for spec in [DeviceSpec.from_string(variable.device or "")]
        }
        found: dict[str, int] = {}
        for device in session.list_devices():
            spec = DeviceSpec.from_string(device.name)
            if any(job in (None, spec.job) and task in (None, spec.task) for job, task in holders):
                found[device.name] = device.incarnation
        return found
