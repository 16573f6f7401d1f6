"""All that Millrace changes for the whole process, and the one variable that turns it off.

A process is not Millrace's own: a user's program, other libraries and other uses of JAX share it.
So what reaches beyond Millrace stands here, is listed (`EFFECTS`, and docs/performance.md), and is
off with ``MILLRACE_PROCESS_TUNING=off``: then Millrace is as right, and slower. What the user's
environment says of malloc, BLAS or XLA holds in any case.

Nothing here imports JAX: the collector pauses before anything large is loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from millrace.platform import installed, lazy_import

VARIABLE = "MILLRACE_PROCESS_TUNING"

#: What is changed, by the names that docs/performance.md lists it under.
EFFECTS = {
    "allocator": "malloc keeps up to 1 GB of freed memory for the next step",
    "garbage collector": "pauses while modules load, and passes over them from then on",
    "full collections": "pass over what earlier ones have kept, while remote clients have large "
    "graphs in the process",
    "imports": "JAX's questions about installed packages are answered quickly, and parts of it "
    "that few programs use load at their first use",
    "XLA flags": "XLA's flags are extended while it reads them, so that updates can be one loop",
    "XLA threads": "a task that has one core of its own gives XLA one thread",
    "BLAS threads": "NumPy's products have one thread where XLA has, or once a stage runs on them",
    "dispatch": "JAX runs a program in the thread that calls it",
}


def is_on() -> bool:
    """Whether Millrace may change anything beyond itself.

    Raises:
      ValueError: The environment says neither on nor off.
    """
    said = os.environ.get(VARIABLE, "on").lower()
    if said in ("on", "1", "true"):
        return True
    if said in ("off", "0", "false"):
        return False
    raise ValueError(f"{VARIABLE}={said!r}: say on or off")


# The garbage collector. A thousand modules make half a million objects that live as long as the
# process. Python's collector would go through all of them several times while they are loaded, and
# again whenever tracing a program makes many objects: a fifth of the time that a task takes to
# start.

#: While modules load, a collection follows this many new objects. It is not switched off, so
#: that an import that fails leaves nothing behind that would matter.
_WHILE_LOADING = 1_000_000

_thresholds_before: list[tuple[int, int, int]] = []


def rest_collector() -> None:
    """Pauses the collector while modules load; `resume_collector` ends it."""
    if not _thresholds_before and is_on():
        _thresholds_before.append(gc.get_threshold())
        if _thresholds_before[0][0] > 0:  # else the user has switched it off
            gc.set_threshold(_WHILE_LOADING)


def resume_collector() -> None:
    """Takes what is there now for permanent, and lets the collector work as before.

    Objects that the program has made before are among them; they go when nothing refers to them
    any more, as most objects do, but a ring of them that nobody uses stays.
    """
    if _thresholds_before:
        gc.freeze()
        gc.set_threshold(*_thresholds_before.pop())


# The allocator.

#: mallopt's numbers for these settings (malloc.h), and how many bytes they are set to.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 1 << 30


def keep_freed_memory() -> bool:
    """Lets malloc reuse the large buffers of the step before; False where it does not.

    XLA takes a step's buffers from malloc and gives them back after it. glibc returns blocks
    above 32 MB to the system at once, and the next step gets them back page by page: a sixth
    of the CNN's step (docs/decisions/0003-convolution-lowering.md).
    """
    if not is_on() or not sys.platform.startswith("linux"):
        return False
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # Not every libc has it.
        return False
    mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    return True


# Imports.


@contextlib.contextmanager
def quick_imports(*later: str) -> Iterator[None]:
    """While it lasts, JAX is loaded, or made ready, quickly.

    Args:
      *later: Modules that load at their first use instead.
    """
    if not is_on():
        yield
        return
    with installed.quick_answers(), lazy_import.replacing(*later):
        yield


def load_later(holder: str, name: str, module: str, **present: Any) -> None:
    """Replaces an attribute of a module by one that is loaded at its first use.

    Args:
      holder: The module that has the attribute.
      name: The attribute.
      module: What it is: a module that is not loaded yet, else nothing happens.
      **present: What it has at once.
    """
    if is_on() and module not in sys.modules:
        stand_in = lazy_import.module(module)
        for key, value in present.items():
            setattr(stand_in, key, value)
        setattr(importlib.import_module(holder), name, stand_in)


# XLA, which reads the environment when it is first used.


@contextlib.contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """While it lasts, a variable of the environment has a value that child processes do not keep.

    Processes that this one starts later make up their own minds.
    """
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


# BLAS. Where every core has a task of its own, XLA is given one thread, and what NumPy multiplies
# by must have no more: its threads would take the cores from other tasks, and go on spinning for a
# while after each product. The products of tier 0 are small and many, and beside two threads that
# spin for each other a busy machine gets nothing done: a transformer's step took 786 ms of CPU
# time with two threads and 142 with one.

#: What users say how many threads it gets by.
_BLAS_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "BLIS_NUM_THREADS",
)


@functools.cache
def use_one_blas_thread() -> bool:
    """Gives NumPy's products one thread, from now on; False where that cannot be said."""
    if not is_on():
        return False
    # Loaded here: it looks through all libraries of the process, which few tasks need.
    threadpoolctl: Any = importlib.import_module("threadpoolctl")
    libraries = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    if not any(name in os.environ for name in _BLAS_VARIABLES):
        for library in libraries:
            library.set_num_threads(1)
    return bool(libraries) and all(library.num_threads == 1 for library in libraries)
