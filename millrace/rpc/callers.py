"""How many calls the clients of each machine have under way.

A call that waits holds a thread. One machine's clients may hold many, but not all of them.
"""

from __future__ import annotations

import collections
import re
import threading
from collections.abc import Callable

import grpc

from millrace.platform import limits

_PEER = re.compile(r"ipv[46]:\[?(?P<host>[0-9a-fA-F.:]+?)(?:%\w+)?\]?:\d+")


def host_of(peer: str) -> str:
    """The machine in what gRPC calls a peer: ``ipv4:10.0.0.1:5000``, ``ipv6:%5B::1%5D:5000``."""
    found = _PEER.fullmatch(peer.replace("%5B", "[").replace("%5D", "]"))
    return peer if found is None else found["host"]


#: Serves a call: the request and gRPC's context in, the answer out.
Handler = Callable[[bytes, "grpc.ServicerContext"], bytes]


class Callers:
    """Counts calls by the machine that they come from."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: collections.Counter[str] = collections.Counter()
        self._most = limits.CALLS_PER_CLIENT.value

    def counted(self, handle: Handler) -> Handler:
        """The handler of a call, refused to those who have too many under way."""

        def handle_counted(request: bytes, context: grpc.ServicerContext) -> bytes:
            host = host_of(context.peer())
            with self._lock:
                refused = self._calls[host] >= self._most
                if not refused:
                    self._calls[host] += 1
            if refused:
                error = limits.CALLS_PER_CLIENT.error(self._most + 1, f"Calls from {host}")
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, error.message)
            try:
                return handle(request, context)
            finally:
                with self._lock:
                    self._calls[host] -= 1
                    if not self._calls[host]:
                        del self._calls[host]

        return handle_counted
