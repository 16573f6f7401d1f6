"""A fence around a folder of checkpoints: of several who believe they are chief, one can write.

Every chief has a *term*: a token that is greater than those of all terms before, and an identity
that decides between equal ones, which only an election that lost its memory could give. Two kinds
of files in the folder, beside ``checkpoint``:

    checkpoint.chief-<token>-<identity>           the term has begun in this folder
    checkpoint.chief-<token>-<identity>.pending   a ``checkpoint`` file on its way

To begin a term is to make the first, and then to remove what is pending of earlier terms. To
commit is to write the second, then to look that there is no later term, and then to rename it to
``checkpoint``. However long a writer is stopped in between (SIGSTOP, a machine that sleeps), after
a later term has begun he cannot commit: either he wrote before it removed his file, so that there
is nothing to rename; or after, and then he sees the later term. There is no lock that a stopped
process could hold.

It rests on renaming as the operating system does it. Behind a URL (an object store) a writer looks
right before he writes, which leaves the moment of the write itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from millrace.core import errors
from millrace.platform import gfile, logging
from millrace.platform.atomic_file import AtomicFile, is_local, sync_names, write_atomically

_PREFIX = "checkpoint.chief-"
_NAME = re.compile(rf"{re.escape(_PREFIX)}(\d+)-(\w+)(\.pending)?")
#: Marks of this many terms stay: who reads the folder while one comes and another goes sees one.
_KEPT = 2


class DeposedError(errors.AbortedError):
    """Another task is chief: a session that recovers goes on as a worker's."""

    def __init__(self, message: str) -> None:
        super().__init__(None, None, message)


class Term(NamedTuple):
    """One chief's time in office; later ones are greater."""

    token: int
    identity: str


class Fence:
    """The fence of one folder.

    Args:
      folder: The folder; it need not exist before `begin`.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder or "."

    def latest(self) -> Term | None:
        """The latest term that has begun here; None if none has."""
        return max((term for term, pending in self._found() if not pending), default=None)

    def begin(self, term: Term, holder: str) -> None:
        """Begins a term: from now on nothing of an earlier one is committed.

        Args:
          term: The term.
          holder: Who it is, for people who look into the folder.

        Raises:
          DeposedError: A later one has begun.
        """
        self._check(term)
        gfile.makedirs(self._folder)
        write_atomically(self._mark(term), f"{holder}\n".encode())
        found = self._found()
        begun = sorted(each for each, pending in found if not pending)
        for each, pending in found:
            if pending and each < term:
                self._remove(self._mark(each) + ".pending")
            elif not pending and each < term and each in begun[:-_KEPT]:
                self._remove(self._mark(each))

    def commit(self, term: Term, name: str, content: bytes) -> None:
        """Replaces a file of the folder, unless a later term has begun.

        Raises:
          DeposedError: One has.
        """
        if not is_local(name):
            self._check(term)
            write_atomically(name, content)
            return
        file = AtomicFile(name, temporary=self._mark(term) + ".pending")
        try:
            file.write(content)
            file.close()
            self._check(term)
            file.commit()
        except errors.NotFoundError as error:
            raise _deposed(term, self.latest(), self._folder) from error
        except BaseException:
            file.discard()
            raise
        sync_names(name)

    def _check(self, term: Term) -> None:
        latest = self.latest()
        if latest is not None and latest > term:
            raise _deposed(term, latest, self._folder)

    def _mark(self, term: Term) -> str:
        return gfile.join(self._folder, f"{_PREFIX}{term.token}-{term.identity}")

    def _found(self) -> list[tuple[Term, bool]]:
        """The terms of all marks and pending files, and which of the two they are."""
        try:
            names = gfile.listdir(self._folder)
        except errors.NotFoundError:
            return []
        matches = (_NAME.fullmatch(name) for name in names)
        return [(Term(int(m[1]), m[2]), m[3] is not None) for m in matches if m is not None]

    def _remove(self, name: str) -> None:
        try:
            gfile.remove(name)
        except errors.NotFoundError:
            logging.vlog(1, "%s is gone already", name)


def _deposed(term: Term, latest: Term | None, folder: str) -> DeposedError:
    later = f"term {latest.token} has begun there" if latest else "a later term has begun there"
    return DeposedError(
        f"No checkpoint is written into {folder}: this task was chief for term {term.token}, and "
        f"{later}. Another task is chief now; it was elected while this one was stopped, or could "
        "not renew its lease in time."
    )


class CheckpointGuard:
    """Lets a Saver write only while its task is the elected chief.

    Args:
      term: The term of which this task is chief now; None if it is not.
      holder: Its name.
    """

    def __init__(self, term: Callable[[], Term | None], holder: str) -> None:
        self._term = term
        self._holder = holder
        #: The term that has begun in a folder, by folder.
        self._begun: dict[str, Term] = {}

    def enter(self, folder: str) -> Callable[[str, bytes], None]:
        """Called before a save; returns what replaces the ``checkpoint`` file at its end.

        Raises:
          DeposedError: This task is not the chief.
        """
        term = self._term()
        if term is None:
            raise DeposedError(
                f"No checkpoint is written into {folder}: this task is not the chief. Only the "
                "elected chief saves; its hooks do so by themselves."
            )
        fence = Fence(folder)
        if self._begun.get(folder) != term:
            fence.begin(term, self._holder)
            self._begun[folder] = term
        return lambda name, content: fence.commit(term, name, content)
