"""Whose training the live model is: a chief that was restarted goes on with it, nobody else does.

When a chief dies the model on the ps tasks lives on, and is newer than the newest checkpoint: the
others may have trained all the time. Its successor must not throw that away. But a training that
somebody begins on servers that are still up must not begin with what was left there. So a chief
leaves a record with a task that holds variables, as soon as its model is ready, and removes it when
its program closes the session or ends. While there is one, the chief died or was cut off.

The record says, as digests: in which folder the checkpoints are; the names, types, shapes and
devices of the variables; and in which life each task was that holds some. And by its name, the
newest checkpoint. A successor adopts the model when all this is as he finds it, every variable has
a value, and the global step is not behind the newest checkpoint's. Otherwise he restores, as in
TensorFlow:

* another folder, or an emptied one: another training. Without a folder there is no telling;
* an older checkpoint made the newest by hand: that is what is wanted;
* a task that restarted: part of the model is gone;
* the program ended with an exception of its own: the model may be the cause (a loss that is not a
  number). An error of the cluster, from which a restart recovers, is no such exception.

Every chief leaves a record, also one that could not be succeeded: it replaces the record of a
training whose model it has overwritten. A record is changed by compare-and-set, so that a chief
that was replaced while it was stopped does not remove its successor's.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import sys
import threading
from typing import Any, NamedTuple

from millrace.core import errors
from millrace.core.device_spec import DeviceSpec
from millrace.data.checkpoint_reader import CheckpointReader
from millrace.graph.graph import Graph
from millrace.platform import logging
from millrace.platform.atomic_file import is_local
from millrace.training.checkpoint.saver import Saver
from millrace.training.checkpoint.state import get_checkpoint_state
from millrace.training.global_step import get_global_step, global_step
from millrace.training.sessions.live_model import LiveModel
from millrace.training.sessions.task_register import SCHEME, TaskRegister, keys_for, tasks_of

_NAME = "/millrace/training"
#: How long a task that a session was just made with may take to answer: one that is gone is found
#: sooner, and to begin again on a busy machine would take longer.
_SECONDS = 60.0
#: How long a program that ends waits for it.
_LAST_SECONDS = 2.0


class _Record(NamedTuple):
    """What a chief leaves; the first three are digests."""

    folder: str
    variables: str
    lives: str
    newest: str

    def encode(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decode(cls, content: bytes | None) -> _Record | None:
        try:
            return cls(**json.loads(content)) if content else None
        except (TypeError, ValueError):
            return None


class Succession:
    """What a chief finds of the one before, and leaves for the one after."""

    def __init__(self, register: TaskRegister, graph: Graph, folder: str, lives: Any) -> None:
        try:
            content, self._version = register.read()
        finally:
            register.close()
        self._register = register
        self._found = _Record.decode(content)
        self._graph = graph
        self._folder = folder
        place = _digest(_place(folder)) if folder else ""
        self._own = _Record(place, _digest(_variables(graph)), _digest(lives), "")

    @classmethod
    def of(
        cls, master: str, session: Any, graph: Graph, checkpoint_dir: str | None
    ) -> Succession | None:
        """That of a chief with a new session.

        Args:
          master: The session's target.
          session: The session.
          graph: Its graph.
          checkpoint_dir: The folder with checkpoints to restore from, if there is one.

        Returns:
          None where nobody can succeed: the model ends with this process, or a task that holds it
          keeps no records (it is TensorFlow's).

        Raises:
          UnavailableError: A task that holds variables cannot be reached.
        """
        if not master.startswith(SCHEME) or not graph.get_collection("variables"):
            return None
        lives = LiveModel(graph).lives_in(session)
        try:
            tasks = tasks_of(master, _SECONDS)
            specs = map(DeviceSpec.from_string, sorted(lives))
            holders = [tasks[str(spec.job)][int(spec.task or 0)] for spec in specs]
            keys = keys_for(master)
            if not holders or (keys is not None and master.removeprefix(SCHEME) in holders):
                return None
            register = TaskRegister(holders[0], _NAME, _SECONDS, keys)
            return cls(register, graph, os.fspath(checkpoint_dir or ""), lives)
        except errors.UnimplementedError as error:
            logging.vlog(1, "There is no record of whose training the model is: %s", error)
            return None

    def is_due(self) -> bool:
        """Whether a chief of the same training died, and left its model on tasks that live on."""
        if self._found is None:
            return False
        obstacle = self._obstacle(self._found)
        if obstacle:
            logging.info("The model that a chief left when it died is not used: %s.", obstacle)
        return not obstacle

    def _obstacle(self, record: _Record) -> str:
        """Why the model of a record is not that of this training, whole; empty if it is."""
        if not self._folder or record.folder != self._own.folder:
            return "its checkpoints were in another folder"
        if record.variables != self._own.variables:
            return "it had other variables"
        if record.lives != self._own.lives:
            return "a task that holds variables has restarted since"
        newest, earlier = _checkpoints(self._folder)
        if not newest:
            return f"there is no checkpoint in {self._folder}"
        # A chief that was killed before it had saved anything knew of no checkpoint.
        if record.newest not in ("", _name(newest), *map(_name, earlier)):
            return f"{newest} was made the newest checkpoint in the meantime"
        return ""

    def is_ahead(self, session: Any) -> bool:
        """Whether the live model is not behind the newest checkpoint; tells the log."""
        step = _global_step(self._graph)
        newest, _ = _checkpoints(self._folder)
        saved = None if step is None else _step_of(newest, step.op.name)
        if saved is None:
            logging.info("The live model is not used: no telling at which step %s is.", newest)
            return False
        live = global_step(session, step)
        if live < saved:
            logging.info(
                "The live model is not used: it is at global step %d, and %s is at %d.",
                live,
                newest,
                saved,
            )
            return False
        logging.info(
            "The chief before this one died. Its model is adopted as it lives on the cluster, at "
            "global step %d: nothing is restored, and no step is lost (%s is at %d).",
            live,
            newest,
            saved,
        )
        return True

    def claim(self, session: Any, saver: Any) -> None:
        """Leaves the record of a chief whose model is ready, until its session is closed.

        Args:
          session: The chief's session.
          saver: What writes its checkpoints.

        Raises:
          UnavailableError: The task that keeps the record cannot be reached.
        """
        record = self._own._replace(newest=_name(_checkpoints(self._folder)[0]))
        is_left = False
        try:
            while not is_left:
                answer = self._register.write(record.encode(), self._version)
                is_left, self._version = answer
        finally:
            self._register.close()
        claim = _Claim(self._register, record, self._version)
        session._before_close(claim.release)
        atexit.register(claim.release)
        if isinstance(saver, Saver):
            saver.after_save = claim.note_checkpoint


def take_over(session: Any, checkpoint_dir: str | None, saver: Any) -> None:
    """Lets a worker that was elected leave its record instead of the former chief's.

    Raises:
      UnavailableError: The task that keeps the record cannot be reached.
    """
    found = Succession.of(os.fsdecode(session.sess_str), session, session.graph, checkpoint_dir)
    if found is not None:
        found.claim(session, saver)


class _Claim:
    """The record that a chief has left."""

    def __init__(self, register: TaskRegister, record: _Record, version: int) -> None:
        self._register = register
        self._record: _Record | None = record
        self._version = version
        # Checkpoints may be written in threads.
        self._lock = threading.Lock()

    def note_checkpoint(self, path: str) -> None:
        """A checkpoint was written."""
        with self._lock:
            if (
                self._record is None
                or _digest(_place(os.path.dirname(path))) != self._record.folder
            ):
                return
            self._record = self._record._replace(newest=_name(path))
            self._replace(self._record.encode())

    def release(self) -> None:
        """The session is closed, or the process ends: removes the record, unless after a fault."""
        atexit.unregister(self.release)
        with self._lock:
            if self._record is None:
                return
            self._record = None
            reason = sys.exc_info()[1] or getattr(sys, "last_value", None)
            if not isinstance(reason, errors.RECOVERABLE):
                self._replace(b"")

    def _replace(self, content: bytes) -> None:
        try:
            answer = self._register.write(content, self._version, _LAST_SECONDS)
            if answer.done:
                self._version = answer.version
        except Exception as error:
            # A successor that finds an old record restores where he could have adopted, or the
            # task has restarted and knows none.
            logging.vlog(1, "The record of the training was not changed: %s", error)
        finally:
            self._register.close()


def _checkpoints(folder: str) -> tuple[str, list[str]]:
    """The newest checkpoint of a folder, empty if there is none; and those before it."""
    try:
        state = get_checkpoint_state(folder) if folder else None
    except ValueError:
        state = None
    if state is None:
        return "", []
    newest, paths = str(state.model_checkpoint_path), [*state.all_model_checkpoint_paths]
    return newest, paths[: paths.index(newest)] if newest in paths else []


def _step_of(path: str, name: str) -> int | None:
    """The global step of a checkpoint; None if there is no telling."""
    try:
        reader = CheckpointReader(path)
        if reader.has_tensor(name):
            return int(reader.get_tensor(name))
    except (errors.OpError, ValueError):
        return None
    number = re.search(r"-(\d+)$", path)
    return int(number[1]) if number else None


def _global_step(graph: Graph) -> Any:
    try:
        return get_global_step(graph)
    except (TypeError, ValueError):
        return None


def _variables(graph: Graph) -> list[str]:
    return sorted(
        f"{variable.name} {variable.dtype.base_dtype.name} {variable.shape} {variable.device}"
        for variable in graph.get_collection("variables")
    )


def _place(folder: str) -> str:
    """A folder's name, however it is written."""
    return os.path.realpath(folder) if is_local(folder) else folder.rstrip("/")


def _name(path: str) -> str:
    """A checkpoint's name in its folder."""
    return path.rpartition("/")[2]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
