"""What a task says of its machine, process and compiler: disk, CPU, memory, changing shapes."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

from millrace.runtime import tiers

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def status() -> dict[str, Any]:
    """In plain values."""
    found: dict[str, Any] = {
        "changing_shapes": [
            {"op": name, "shapes": count} for name, count in dict(tiers.CHANGING).items()
        ],
        "process": {"pid": os.getpid(), "cpu_seconds": time.process_time()},
        "cores": os.cpu_count() or 1,
    }
    with contextlib.suppress(OSError, IndexError):
        pages = Path("/proc/self/statm").read_text().split()[1]
        found["process"]["memory_bytes"] = int(pages) * _PAGE_BYTES
    with contextlib.suppress(OSError):  # the folder is gone
        folder = os.getcwd()
        usage = shutil.disk_usage(folder)
        found["disk"] = {"folder": folder, "free_bytes": usage.free, "total_bytes": usage.total}
    return found
