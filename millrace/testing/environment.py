"""What tests may ask about the machine and the files around them."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from typing import Any

from millrace.client.device_lib import list_local_devices

_temp_dirs: list[str] = []


def get_temp_dir() -> str:
    """A folder for the tests of this process; removed at exit unless TEST_TMPDIR names it."""
    if given := os.environ.get("TEST_TMPDIR"):
        os.makedirs(given, exist_ok=True)
        return given
    if not _temp_dirs:
        folder = tempfile.mkdtemp(prefix="millrace_tests_")
        _temp_dirs.append(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _temp_dirs[0]


def test_src_dir_path(relative_path: str) -> str:
    """A path from the folder that the test run began in (TEST_SRCDIR, or the program's)."""
    base = os.environ.get("TEST_SRCDIR") or os.path.dirname(os.path.abspath(sys.argv[0]))
    return os.path.join(base, relative_path)


test_src_dir_path.__test__ = False  # type: ignore[attr-defined]


def gpu_device_name() -> str:
    """The name of a GPU, or the empty string."""
    for device in list_local_devices():
        if device.device_type == "GPU":
            return device.name
    return ""


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Whether sessions have a GPU to place operations on.

    Args:
      cuda_only: Unused; TensorFlow has it.
      min_cuda_compute_capability: Unused; TensorFlow has it.
    """
    return bool(gpu_device_name())


def is_built_with_cuda() -> bool:
    """False: there is nothing built in; devices are XLA's."""
    return False


def is_built_with_gpu_support() -> bool:
    """False: there is nothing built in; devices are XLA's."""
    return False


def is_built_with_rocm() -> bool:
    """False: there is nothing built in; devices are XLA's."""
    return False


def is_built_with_xla() -> bool:
    """True: everything is compiled by XLA."""
    return True
