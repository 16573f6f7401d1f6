"""Files that appear under their name when they are complete, and not before.

An `AtomicFile` is written under a temporary name beside its own, brought to the disk, and
renamed. A process that is killed in between leaves the old file as it was, and a temporary name
that nobody reads. Errors are TensorFlow's classes with the file's own name.

Setting the environment variable MILLRACE_FSYNC to 0 leaves out waiting for the disk: a killed
process still loses nothing, a machine that loses power may.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Any, BinaryIO

from millrace.platform.filesystems import resolve, split_scheme
from millrace.platform.gfile import tensorflow_errors

#: How much is written before the disk is told to begin with it.
PIECE_BYTES = 16 << 20


def is_durable() -> bool:
    """Whether a file that is complete must have reached the disk."""
    return os.environ.get("MILLRACE_FSYNC", "1") != "0"


def is_local(name: str) -> bool:
    """Whether a name is that of a file of the operating system."""
    return split_scheme(name)[0] in ("", "file://")


class AtomicFile:
    """A file in the making: `write` as often as needed, `close`, then `commit`.

    Args:
      name: The name that `commit` gives it.
      in_place: Whether to write under the name itself; for names that nobody reads before
        something else refers to them, on file systems where renaming means copying.
      lasting: Whether to wait until it would survive a loss of power.
      temporary: The name until then, when others must know it; `commit` raises NotFoundError if
        one of them has removed it.
    """

    def __init__(
        self, name: str, in_place: bool = False, lasting: bool = True, temporary: str | None = None
    ) -> None:
        self.name = name
        self._lasting = lasting and is_durable()
        #: Where the bytes are until `commit`.
        self.temporary = name if in_place else temporary or _temporary_name(name)
        #: Bytes written so far.
        self.size = 0
        #: Up to where the disk was told to begin.
        self._begun = 0
        self._stream: BinaryIO | None = None
        with tensorflow_errors(name):
            self._files, path = resolve(self.temporary)
            self._stream = self._files.open_for_writing(path, append=False)

    def write(self, content: Any) -> None:
        """Appends bytes, or anything that shows its memory as bytes."""
        assert self._stream is not None
        view = memoryview(content)
        with tensorflow_errors(self.name):
            done = 0
            while done < len(view):
                piece = view[done : done + PIECE_BYTES]
                # A stream without a buffer of its own may take a part only.
                taken = self._stream.write(piece)
                size = len(piece) if taken is None else taken
                done += size
                self.size += size
                if self._lasting and self.size - self._begun >= PIECE_BYTES:
                    # Else all of it is left for the end, when the disk is waited for.
                    self._files.start_sync(self._stream, self._begun, self.size - self._begun)
                    self._begun = self.size

    def close(self) -> None:
        """Brings what was written to the disk; the name is still the temporary one."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            with tensorflow_errors(self.name):
                try:
                    if self._lasting:
                        self._files.sync_file(stream)
                finally:
                    stream.close()

    def commit(self) -> None:
        """Gives the file its name; `sync_names` makes that last."""
        self.close()
        if self.temporary != self.name:
            with tensorflow_errors(self.name):
                self._files.rename(resolve(self.temporary)[1], resolve(self.name)[1])

    def discard(self) -> None:
        """Removes what was written, as far as that is possible."""
        with contextlib.suppress(Exception):
            if self._stream is not None:
                stream, self._stream = self._stream, None
                stream.close()
        with contextlib.suppress(Exception):
            self._files.remove_file(resolve(self.temporary)[1])


def _temporary_name(name: str) -> str:
    return f"{name}.tempstate{secrets.randbits(64)}"


def sync_names(name: str) -> None:
    """Brings the directory of `name` to the disk, so that what is in it keeps its names."""
    if not is_durable():
        return
    with tensorflow_errors(name):
        files, path = resolve(name)
        files.sync_directory(os.path.dirname(path))


def write_atomically(name: str, content: bytes) -> None:
    """Replaces the content of a file: readers see the old one or the new one."""
    file = AtomicFile(name)
    try:
        file.write(content)
        file.commit()
    except BaseException:
        file.discard()
        raise
    sync_names(name)
