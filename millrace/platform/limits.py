"""What a server gives at most: each limit has a default, an environment variable, and an error.

A limit is read where it is needed, so that a process may set it before it starts a server. Sizes
may be written with a unit (`512M`, `16G`); `none` lifts a limit.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import resource
from pathlib import Path

from millrace.core import errors

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
#: Connections, files of checkpoints and data: more than the usual 1,024.
_FILES = 65536
#: No limit is smaller.
_SMALL_BYTES = 1 << 20
_CGROUP_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


class Limit:
    """One limit.

    Attributes:
      variable: The environment variable that sets it.
      what: What it limits, in words.
    """

    def __init__(self, variable: str, default: float | None, what: str) -> None:
        self.variable = variable
        self.what = what
        self._default = default

    @property
    def default(self) -> float:
        """What holds when the variable is not set."""
        return _machine_memory() if self._default is None else self._default

    @property
    def value(self) -> float:
        """The limit; infinity when it is lifted.

        Raises:
          ValueError: The variable holds something else than a number.
        """
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.default
        if text.lower() == "none":
            return math.inf
        match = _NUMBER.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{self.variable}={text!r} is not a number: write 1000, 512M, 16G or none."
            )
        return float(match[1]) * _UNITS[match[2].upper()]

    def check(self, asked: float, of_what: str) -> None:
        """Checks that no more is asked than is given.

        Raises:
          ResourceExhaustedError: More is asked; the message names the limit and how to raise it.
        """
        if asked > self.value:
            raise self.error(asked, of_what)

    def error(self, asked: float, of_what: str) -> errors.ResourceExhaustedError:
        """The error for asking too much."""
        return errors.ResourceExhaustedError(
            None,
            None,
            f"{of_what}: {asked:,.0f} is more than the {self.value:,.0f} that are given for "
            f"{self.what}. Set {self.variable} for the server to raise the limit.",
        )


@functools.cache
def _machine_memory() -> float:
    """The memory that this process may use: the machine's, or its container's."""
    found = math.inf
    with contextlib.suppress(ValueError, OSError, AttributeError):
        found = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in _CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):
            found = min(found, float(Path(name).read_text()))
    return found


def allow_many_files() -> None:
    """Lets this process have as many connections as the system lets it, if that was not so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_array(count: int, item_bytes: int, what: str = "the result") -> None:
    """Checks that an array fits into memory, for a kernel whose numbers say how large it is.

    Args:
      count: How many elements it has.
      item_bytes: What each takes, with all that is made on the way to it.
      what: What the array is, in words.

    Raises:
      ResourceExhaustedError: It does not.
    """
    if count * item_bytes > _SMALL_BYTES:
        MEMORY_BYTES.check(
            count * item_bytes, f"OOM when allocating {what} of {count:,} elements, in bytes"
        )


MESSAGE_BYTES = Limit(
    "MILLRACE_MAX_MESSAGE_BYTES",
    16 << 30,
    "bytes of one message (gRPC's own messages never exceed 2 GiB)",
)
MESSAGE_FIELDS = Limit(
    "MILLRACE_MAX_MESSAGE_FIELDS", 1 << 22, "fields of one service message, or of one inside of it"
)
COMPILE_SECONDS = Limit("MILLRACE_MAX_COMPILE_SECONDS", 600, "seconds of one compile")
COMPILE_BYTES = Limit(
    "MILLRACE_MAX_COMPILE_BYTES", 8 << 30, "bytes by which the process grows during one compile"
)
GRAPH_NODES = Limit("MILLRACE_MAX_GRAPH_NODES", 1_000_000, "nodes of one session's graph")
GRAPH_BYTES = Limit("MILLRACE_MAX_GRAPH_BYTES", 2 << 30, "bytes of one session's graph")
#: A name is looked at, written and matched again and again, and nobody else runs meanwhile.
NAME_BYTES = Limit(
    "MILLRACE_MAX_NAME_BYTES", 1 << 16, "bytes of the name of a node, of its device or of an input"
)
NODE_INPUTS = Limit(
    "MILLRACE_MAX_NODE_INPUTS", 1 << 17, "inputs, outputs or members of a list of one node"
)
SESSIONS_PER_CLIENT = Limit(
    "MILLRACE_MAX_SESSIONS_PER_CLIENT", 1000, "open sessions of clients on one machine"
)
CALLS_PER_CLIENT = Limit(
    "MILLRACE_MAX_CALLS_PER_CLIENT", 4000, "calls under way of clients on one machine"
)
#: Others wait for a share, and do not fail.
COMPUTING_STEPS_PER_CLIENT = Limit(
    "MILLRACE_MAX_COMPUTING_STEPS_PER_CLIENT",
    max(2, os.cpu_count() or 2),
    "steps of one client that compute at the same time",
)
MEMORY_BYTES = Limit("MILLRACE_MAX_MEMORY_BYTES", None, "bytes of memory of one task")
#: A tensor of strings is an array of Python objects: each costs 60 bytes and more, and time in
#: which nobody else can run Python.
STRING_ELEMENTS = Limit("MILLRACE_MAX_STRING_ELEMENTS", 1 << 22, "strings of one tensor")
STRING_BYTES = Limit("MILLRACE_MAX_STRING_BYTES", 2 << 30, "bytes of the strings of one tensor")
#: One string is made and copied in one call, and nobody else can run Python meanwhile.
STRING_LENGTH = Limit("MILLRACE_MAX_STRING_LENGTH", 256 << 20, "bytes of one string")
LIST_ELEMENTS = Limit(
    "MILLRACE_MAX_LIST_ELEMENTS", 1 << 24, "elements of one TensorArray or list of tensors"
)
CONNECTIONS = Limit("MILLRACE_MAX_CONNECTIONS", 4096, "gRPC connections to one task")
HALF_OPEN_CONNECTIONS = Limit(
    "MILLRACE_MAX_HALF_OPEN_CONNECTIONS",
    256,
    "connections to one task's data plane that have not shown who they are",
)
HANDSHAKE_SECONDS = Limit(
    "MILLRACE_HANDSHAKE_SECONDS", 5.0, "seconds in which a connection shows who it is"
)
#: All of them, for `docs/security.md` and its test.
ALL = (
    MESSAGE_BYTES,
    MESSAGE_FIELDS,
    GRAPH_NODES,
    GRAPH_BYTES,
    NAME_BYTES,
    NODE_INPUTS,
    SESSIONS_PER_CLIENT,
    CALLS_PER_CLIENT,
    COMPUTING_STEPS_PER_CLIENT,
    MEMORY_BYTES,
    STRING_ELEMENTS,
    STRING_BYTES,
    STRING_LENGTH,
    LIST_ELEMENTS,
    CONNECTIONS,
    HALF_OPEN_CONNECTIONS,
    HANDSHAKE_SECONDS,
)
