"""What one training step takes: of its worker, of the parameter servers, of the links.

Pure: two looks at the tasks of a small job go in. The looks are statuses of tasks that observe
their waits (`Connection.status(..., observe=True)`).
"""

from __future__ import annotations

import dataclasses
import re
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


@dataclasses.dataclass(frozen=True)
class StepCost:
    """One step of one worker.

    Attributes:
      worker: Seconds of the worker's own: the step and what is between two steps, without waits.
      ps: Seconds of CPU on the parameter servers, all together.
      down: Bytes of variables that the worker reads.
      up: Bytes of gradients that it sends.
    """

    worker: float
    ps: float
    down: float
    up: float


class NotMeasured(ValueError):
    """The job told too little: a sentence."""


def between(
    worker: tuple[Mapping[str, Any], Mapping[str, Any]],
    ps: tuple[Mapping[str, Any], Mapping[str, Any]],
    seconds: float,
    per_byte: float,
) -> StepCost:
    """The cost of a step, from two looks at a job of one worker and one ps.

    Args:
      worker: The worker's status, before and after.
      ps: The ps' status, before and after.
      seconds: Between the two.
      per_byte: Seconds of CPU that a byte takes each side of a socket. Tasks on one machine hand
        values over in shared memory, which takes less than what is planned for.

    Raises:
      NotMeasured: Too few steps were made.
    """
    steps = worker[1]["own_steps"] - worker[0]["own_steps"]
    if steps < 3:
        raise NotMeasured(
            f"the job made {steps} steps in {seconds:.0f} s: measure longer (--seconds), or look "
            "at its log"
        )
    waited, down = (_grown(worker, key) / steps for key in ("seconds", "num_bytes"))
    up = _grown(ps, "num_bytes") / steps
    cpu = (ps[1]["process"]["cpu_seconds"] - ps[0]["process"]["cpu_seconds"]) / steps
    own = max(seconds / steps - waited, 1e-6)
    moved = (down + up) * per_byte
    return StepCost(own + moved, cpu + moved, down, up)


def _grown(looks: tuple[Mapping[str, Any], Mapping[str, Any]], key: str) -> float:
    before, after = (sum(peer[key] for peer in look["waits"].values()) for look in looks)
    return float(after - before)


def seconds_per_byte(size: int = 64 << 20) -> float:
    """What a byte costs one side of a TCP socket of this machine, in CPU: measured."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiver = threading.Thread(target=_drain, args=(listener,))
        receiver.start()
        data = bytes(1 << 20)
        start = time.process_time()
        with socket.create_connection(listener.getsockname()) as connection:
            for _ in range(size >> 20):
                connection.sendall(data)
        receiver.join()
    return (time.process_time() - start) / size / 2  # both sides were this process


def _drain(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        buffer = bytearray(1 << 20)
        while connection.recv_into(buffer):
            pass


def parse_rate(text: str) -> float:
    """Bits per second: 1e10 for ``10gbit``, as `tc` writes rates.

    Raises:
      ValueError: It is no rate.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:bit|bps|bit/s)", text.strip().lower())
    if match is None or not float(match[1]):
        raise ValueError(f"{text!r} is no rate of a link; write 10gbit or 100mbit")
    return float(match[1]) * _UNITS[match[2]]


def parse_time(text: str) -> float:
    """Seconds: 1e-4 for ``100us``.

    Raises:
      ValueError: It is no time.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s)", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is no time; write 100us, 2ms or 1s")
    return float(match[1]) * _SECONDS[match[2]]
