"""Registers of a task: small values with versions, changed by compare-and-set only.

The built-in election of the chief keeps its lease in one (`millrace.training.election.builtin`).
They last as long as the server does. A version is never used twice, not even by a server that was
started again: it begins with the server's incarnation, so that a write that was meant for the
content before cannot hit the content after.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from typing import Any

from millrace.core import errors

#: How much one register holds, and how many there are.
_MAX_BYTES, _MAX_REGISTERS = 4096, 256
#: Versions of one server: the incarnation's upper bits, then a count.
_COUNT_BITS = 30


class Registers:
    """All registers of one task.

    Args:
      incarnation: The server's.
    """

    def __init__(self, incarnation: int) -> None:
        self._lock = threading.Lock()
        self._version = (incarnation >> _COUNT_BITS) << _COUNT_BITS
        #: (content, version) by name.
        self._content: dict[str, tuple[bytes, int]] = {}
        #: The version of a register that has no content.
        self._empty = self._version
        #: Told what was written, while the task has a standby.
        self.on_written: Callable[[str, bytes, int], None] = lambda name, content, version: None

    def answer(self, question: bytes) -> bytes:
        """Answers a call: a read, or a write that says which version it replaces.

        Raises:
          InvalidArgumentError: The question cannot be understood, or is too large.
          ResourceExhaustedError: There are too many registers.
        """
        try:
            asked: Any = json.loads(question)
            name = str(asked["name"])
            if "content" not in asked:
                return _tell(*self.read(name))
            content, expected = base64.b64decode(asked["content"]), int(asked["version"])
        except (KeyError, TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(
                None, None, f"A question about a register cannot be read: {error}"
            ) from None
        return _tell(*self.write(name, content, expected))

    def read(self, name: str) -> tuple[bytes | None, int, bool]:
        """The content (None if there is none), its version, and True."""
        with self._lock:
            return (*self._content.get(name, (None, self._empty)), True)

    def write(self, name: str, content: bytes, expected: int) -> tuple[bytes | None, int, bool]:
        """Replaces a content of the expected version; what there is now, and whether it did."""
        if len(content) > _MAX_BYTES or len(name) > _MAX_BYTES:
            raise errors.InvalidArgumentError(
                None, None, f"A register holds {_MAX_BYTES} bytes, not {len(content)}."
            )
        with self._lock:
            found = self._content.get(name, (None, self._empty))
            if found[1] != expected:
                return (*found, False)
            if name not in self._content and len(self._content) >= _MAX_REGISTERS:
                raise errors.ResourceExhaustedError(
                    None, None, f"This task has {_MAX_REGISTERS} registers already."
                )
            self._version += 1
            self._content[name] = (content, self._version)
            written = self._version
        self.on_written(name, content, written)
        return content, written, True

    def contents(self) -> list[tuple[str, bytes, int]]:
        """The name, the content and the version of each register that has one."""
        with self._lock:
            return [(name, *found) for name, found in self._content.items()]

    def follow(self, name: str, content: bytes, version: int) -> None:
        """Takes over what the primary of this task has in a register."""
        with self._lock:
            self._version = max(self._version, version)
            self._content[name] = (content, version)


def _tell(content: bytes | None, version: int, done: bool) -> bytes:
    text = None if content is None else base64.b64encode(content).decode()
    return json.dumps({"content": text, "version": version, "done": done}).encode()
