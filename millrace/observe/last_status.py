"""What a server knew when it was stopped, for the launcher that outlives it.

A parameter server ends by itself when the workers have left; a question a second later gets
no answer any more, and would never know the last global step.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millrace.platform.atomic_file import write_atomically

#: Names the file that a server writes when it stops.
FILE = "MILLRACE_LAST_STATUS"


def write(status: Callable[[], dict[str, Any]]) -> None:
    """Writes the status of a server that stops, if somebody wants it."""
    path = os.environ.get(FILE)
    if path:
        with contextlib.suppress(Exception):  # stopping goes on whatever this meets
            write_atomically(path, json.dumps(status()).encode())


def read(path: Path) -> dict[str, Any]:
    """What was written; nothing if there is no such file."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {}
