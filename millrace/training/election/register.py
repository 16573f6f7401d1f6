"""Where the lease of the chief is kept: one value with a version, changed by compare-and-set.

A back end does nothing else: the rules of the lease are the same for all
(`millrace.protocol.election`). It keeps the value when its writers die. What it cannot reach, it
reports as UnavailableError, within a second or two, and then works again when it can.
"""

from __future__ import annotations

import urllib.parse
from typing import NamedTuple, Protocol

from millrace.protocol.election import Reading, Record

#: How long a call may take before the register counts as unreachable.
CALL_SECONDS = 1.0
#: How long a lease lasts by default: within 5 seconds another chief is at work.
LEASE_SECONDS = 3.0
#: The environment variable by which `millrace launch --elect` says where the election is.
VARIABLE = "MILLRACE_ELECT"
#: The name of the built-in lease.
_BUILTIN_PATH = "/millrace/chief"
#: What begins an address.
SCHEMES = ("builtin", "zookeeper", "zookeepers", "etcd", "etcds")


class Register(Protocol):
    """A place that can keep a lease."""

    def read(self) -> Reading:
        """What it holds.

        Raises:
          UnavailableError: It cannot be reached now.
          ValueError: It holds something else.
        """

    def write(self, record: Record, version: int) -> bool:
        """Replaces the content if it has this version; whether it did.

        Raises:
          UnavailableError: It cannot be reached, or did not answer; the write may have happened.
        """

    def close(self) -> None:
        """Ends all connections and threads."""


class Address(NamedTuple):
    """Where a lease is kept, and how long it lasts.

    Attributes:
      scheme: One of SCHEMES.
      hosts: ``host:port``, several with commas; empty for ``builtin``.
      path: The name of the lease there.
      seconds: How long it lasts.
    """

    scheme: str
    hosts: str
    path: str
    seconds: float

    @classmethod
    def parse(cls, text: str) -> Address:
        """Reads ``builtin``, ``zookeeper://host:port/path`` or ``etcd://host:port/path``.

        ``zookeepers://`` and ``etcds://`` are the same by TLS. Any of them may end in
        ``?lease=SECONDS``.

        Raises:
          ValueError: It is none of these.
        """
        parts = urllib.parse.urlsplit(text if "://" in text else _builtin_as_url(text))
        options = dict(urllib.parse.parse_qsl(parts.query))
        lease = options.pop("lease", str(LEASE_SECONDS))
        try:
            seconds = float(lease)
        except ValueError:
            seconds = 0.0
        path = parts.path.rstrip("/")
        is_builtin = parts.scheme == "builtin"
        if (
            parts.scheme not in SCHEMES
            or options
            or not 0 < seconds < float("inf")
            or bool(parts.netloc) == is_builtin
            or not path
        ):
            raise ValueError(
                f"Cannot hold an election at {text!r}: say builtin, zookeeper://host:port/path or "
                "etcd://host:port/path (zookeepers:// or etcds:// with TLS; several hosts with "
                "commas, and a path for each job), and "
                f"after it, if you like, ?lease=SECONDS (more than 0, {LEASE_SECONDS:g} if unsaid)."
            )
        return cls(parts.scheme, parts.netloc, path, seconds)


def _builtin_as_url(text: str) -> str:
    name, mark, query = text.partition("?")
    return f"{name}:{_BUILTIN_PATH}{mark}{query}"
