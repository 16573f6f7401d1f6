"""`compiler/xla.py` keeps the memory of one step for the next."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
import millrace.compiler.xla

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(48 << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(faults())
"""
PAGES = (48 << 20) // os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("settings", "kept"), [({}, True), ({"MALLOC_MMAP_THRESHOLD_": "1000000"}, False)]
)
def test_large_buffers_are_kept_unless_the_environment_says_otherwise(settings, kept):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    # Huge pages would make a fault of many pages one.
    environment.update(settings, NUMPY_MADVISE_HUGEPAGE="0")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert (int(done.stdout) < PAGES / 2) == kept
