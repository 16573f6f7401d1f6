"""Hosts on this machine: network and process namespaces of their own, and links of a given rate.

Tasks on different hosts share no memory, no file descriptors and no loopback: whatever one hands
another goes over a network interface. That takes root and Debian's iproute2 and util-linux.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import time

#: What each host, and the switch between them, is told to be free of: its own processes' list,
#: shared memory and other namespaces of System V.
_ISOLATED = ("unshare", "--pid", "--ipc", "--mount-proc", "--fork", "--kill-child")
#: The interface of a host.
_CARD = "eth0"
_PORT = 2222


class CannotMakeHosts(Exception):
    """Hosts cannot be made here; says why, and what would help."""


@dataclasses.dataclass(frozen=True)
class Traffic:
    """What went through the busiest direction of one host's link, and in how many seconds."""

    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """In bits per second."""
        return 8 * self.bytes / max(self.seconds, 1e-9)


def _ip(*words: str) -> str:
    result = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=60)
    if result.returncode:
        raise CannotMakeHosts(f"`ip {' '.join(words)}` failed: {result.stderr.strip()}")
    return result.stdout


class VirtualHosts:
    """Hosts that are connected by a switch, each by a link of the same rate.

    Attributes:
      addresses: Of each host: where a task listens that is alone on it.
    """

    def __init__(self, count: int, rate: str | None = None) -> None:
        """Makes the hosts.

        Args:
          count: How many.
          rate: Of each link in each direction, in the words of `tc` ("1gbit"); unlimited if None.

        Raises:
          CannotMakeHosts: The system does not let us.
        """
        missing = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
        if missing or os.geteuid() != 0:
            lack = f"needs {' and '.join(missing)} (Debian: iproute2, util-linux)" * bool(missing)
            raise CannotMakeHosts(f"Making hosts {lack or 'needs root'}.")
        made = f"{os.getpid()}-{time.monotonic_ns() % 1_000_000}"
        self._switch = f"millrace-{made}-switch"
        self._hosts = [f"millrace-{made}-{index}" for index in range(count)]
        self.addresses = [f"10.77.0.{index + 1}:{_PORT}" for index in range(count)]
        try:
            self._connect(rate)
        except BaseException:
            self.close()
            raise

    def _connect(self, rate: str | None) -> None:
        for name in (self._switch, *self._hosts):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge", "up")
        for index, (host, address) in enumerate(zip(self._hosts, self.addresses, strict=True)):
            socket = f"port{index}"
            _ip("-n", host, "link", "add", _CARD, "type", "veth", "peer", socket, "netns",
                self._switch)  # fmt: skip
            _ip("-n", host, "address", "add", f"{address.partition(':')[0]}/24", "dev", _CARD)
            _ip("-n", host, "link", "set", _CARD, "up")
            _ip("-n", self._switch, "link", "set", socket, "master", "bridge", "up")
            if rate is not None:
                self._limit(host, _CARD, rate)
                self._limit(self._switch, socket, rate)

    @staticmethod
    def _limit(namespace: str, card: str, rate: str) -> None:
        # A burst of a millisecond at 10 Gbit/s; a queue of 50 ms, as switches have.
        limit = ("tbf", "rate", rate, "burst", "1mb", "latency", "50ms")
        command = ["tc", "-n", namespace, "qdisc", "add", "dev", card, "root", *limit]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if result.returncode:
            raise CannotMakeHosts(f"`{' '.join(command)}` failed: {result.stderr.strip()}")

    def __enter__(self) -> VirtualHosts:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Takes the hosts away; whatever ran on them has ended by then."""
        for name in (*self._hosts, self._switch):
            with contextlib.suppress(CannotMakeHosts):
                _ip("netns", "del", name)

    def within(self, index: int) -> tuple[str, ...]:
        """The words in front of a command that let it run on a host."""
        return ("ip", "netns", "exec", self._hosts[index], *_ISOLATED)

    def counted(self) -> list[dict[str, int]]:
        """How many bytes went into and out of each host so far."""
        found = []
        for host in self._hosts:
            (card,) = json.loads(_ip("-n", host, "-s", "-j", "link", "show", _CARD))
            counts = card["stats64"]
            found.append({way: int(counts[way]["bytes"]) for way in ("rx", "tx")})
        return found


def busiest(before: list[dict[str, int]], after: list[dict[str, int]], seconds: float) -> Traffic:
    """The direction of a link that carried most between two counts."""
    most = max(
        later[way] - earlier[way]
        for earlier, later in zip(before, after, strict=True)
        for way in ("rx", "tx")
    )
    return Traffic(most, seconds)
