"""What a task says of its machine and its compiler: disk, shapes that keep changing."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any

from millrace.runtime import tiers


def status() -> dict[str, Any]:
    """In plain values."""
    found: dict[str, Any] = {
        "changing_shapes": [
            {"op": name, "shapes": count} for name, count in dict(tiers.CHANGING).items()
        ]
    }
    with contextlib.suppress(OSError):  # the folder is gone
        folder = os.getcwd()
        usage = shutil.disk_usage(folder)
        found["disk"] = {"folder": folder, "free_bytes": usage.free, "total_bytes": usage.total}
    return found
