"""Ports of this machine that are kept for servers which start later, or again.

A port that was only looked up (bound and closed) may be given to anybody before its server binds
it, seconds later. One that is held is given to nobody who asks for *any* free port; a server that
asks for this very one gets it, because the socket that holds it does not listen and both sides say
SO_REUSEADDR, as servers do. (So it is on Linux.)
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self


class HeldPorts:
    """Some free ports, all different, held until `close`.

    Attributes:
      ports: Their numbers.
      addresses: The same as ``host:port``.
    """

    def __init__(self, count: int, host: str = "localhost") -> None:
        """Takes them.

        Args:
          count: How many.
          host: A name or address of this machine.
        """
        self._holders: list[socket.socket] = []
        try:
            for _ in range(count):
                holder = socket.socket()
                self._holders.append(holder)
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                holder.bind((host, 0))
        except OSError:
            self.close()
            raise
        self.ports: list[int] = [holder.getsockname()[1] for holder in self._holders]
        self.addresses = [f"{host}:{port}" for port in self.ports]

    def close(self) -> None:
        """Lets go of them; servers that have them keep them."""
        for holder in self._holders:
            holder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
