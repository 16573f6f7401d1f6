"""What all tests share: programs are compiled quickly rather than well, and once for all processes.

Most of the time of the suite goes into XLA's compiler, and most of its programs are compiled for
several tests. Speed is measured in benchmarks/, without any of this.
"""

from __future__ import annotations

import os
from pathlib import Path

_CACHE = Path(__file__).parents[1] / ".cache" / "xla"

os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
