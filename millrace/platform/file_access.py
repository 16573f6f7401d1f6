"""Which files the steps of a session may touch.

A session of this process may do what the process may. One that came over the network is confined
to the folders that its server was told: a graph could otherwise read keys and overwrite programs.
Names are resolved before they are judged, so that neither `..` nor a symbolic link nor another
spelling of a URL leads out.

The confinement belongs to what runs: the code that runs a step enters it for the thread, and
`filesystems.resolve`, through which every file of tf.gfile is opened, asks here.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import threading
import urllib.parse
from collections.abc import Iterator, Sequence

from millrace.core import errors

ALLOWED_FOLDERS = "MILLRACE_ALLOWED_FOLDERS"
#: Says that clients may touch every file.
EVERYTHING = "*"


class _Confinement(threading.local):
    """What a thread is confined to."""

    access: FileAccess | None = None


#: Of each thread; see `confine`. For those who cannot afford a call.
confinement = _Confinement()


class FileAccess:
    """What remote sessions may touch.

    Args:
      folders: Folders and URLs; what is below them is allowed too. ``*`` allows everything.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._everything = EVERYTHING in folders
        #: Resolved folders of the local disk, and (scheme, path) of URLs.
        self._local: list[str] = []
        self._remote: list[tuple[str, str]] = []
        for folder in folders:
            scheme, path = _split(folder)
            if folder == EVERYTHING or not path:
                continue
            if scheme in ("", "file"):
                self._local.append(os.path.realpath(path))
            else:
                self._remote.append((scheme, posixpath.normpath(path)))

    @classmethod
    def for_server(cls, folders: Sequence[str] | None, is_reachable: bool) -> FileAccess:
        """What a server allows.

        Args:
          folders: What its program says, or None for what the environment says.
          is_reachable: Whether other machines can reach it; then nothing is allowed that nobody
            named.
        """
        if folders is None:
            text = os.environ.get(ALLOWED_FOLDERS, "")
            found = _split_list(text)
            folders = found or ([] if is_reachable else [EVERYTHING])
        return cls([os.fspath(folder) for folder in folders])

    def allows(self, scheme: str, path: str) -> bool:
        """Whether a file may be touched.

        Args:
          scheme: ``s3://`` and the like; empty for the local disk.
          path: The rest of the name.
        """
        if self._everything:
            return True
        scheme = scheme.removesuffix("://").lower()
        if scheme in ("", "file"):
            if "\0" in path:
                return False
            place = os.path.realpath(path)
            return any(_is_below(place, folder) for folder in self._local)
        if "::" in path:  # fsspec would take it for the name of another file system
            return False
        # A store may or may not read %2e%2e as dots: it must stay inside either way.
        spellings = {posixpath.normpath(text) for text in (path, urllib.parse.unquote(path))}
        return any(
            scheme == allowed and all(_is_below(text, folder) for text in spellings)
            for allowed, folder in self._remote
        )

    def check(self, scheme: str, path: str) -> None:
        """Checks that a file may be touched.

        Raises:
          PermissionDeniedError: It may not.
        """
        if not self.allows(scheme, path):
            named = ", ".join([*self._local, *(f"{s}://{p}" for s, p in self._remote)]) or "none"
            raise errors.PermissionDeniedError(
                None,
                None,
                f"{scheme}{path}; this server does not let clients touch it: allowed are the "
                f"folders named when it was started ({named}). Start it with {ALLOWED_FOLDERS} "
                "(or `--allow-folder`) to name more.",
            )


def _is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")


def _split(name: str) -> tuple[str, str]:
    scheme, separator, rest = name.partition("://")
    return (scheme.lower(), rest) if separator else ("", name)


def _split_list(text: str) -> list[str]:
    """Names separated by colons, of which some are URLs."""
    found: list[str] = []
    for piece in text.split(os.pathsep):
        if piece.startswith("//") and found:
            found[-1] += f":{piece}"  # the colon was a URL's
        elif piece:
            found.append(piece)
    return found


# -- The confinement of a thread -----------------------------------------------------------


def current() -> FileAccess | None:
    """What the step that this thread runs is confined to; None when it is not."""
    return confinement.access


def confine(access: FileAccess | None) -> FileAccess | None:
    """Confines what the thread does from now on; what it was confined to before."""
    before = confinement.access
    confinement.access = access
    return before


@contextlib.contextmanager
def confined(access: FileAccess | None) -> Iterator[None]:
    """Confines what the thread does meanwhile; None lifts the confinement."""
    before = confine(access)
    try:
        yield
    finally:
        confine(before)


def check(scheme: str, path: str) -> None:
    """Checks that what this thread runs may touch a file.

    Raises:
      PermissionDeniedError: It may not.
    """
    access = current()
    if access is not None:
        access.check(scheme, path)
