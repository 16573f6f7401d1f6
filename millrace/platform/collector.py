"""Spares the garbage collector what is not garbage: the modules of this package and of JAX.

A thousand modules make half a million objects that live as long as the process. Python's
collector would go through all of them several times while they are loaded, and again whenever
tracing a program makes many objects: a fifth of the time that a task takes to start.
"""

from __future__ import annotations

import gc

#: While modules load, a collection follows this many new objects. It is not switched off, so
#: that an import that fails leaves nothing behind that would matter.
_WHILE_LOADING = 1_000_000

_before: list[tuple[int, int, int]] = []


def rest() -> None:
    """Lets the collector rest while modules load; `resume` ends it."""
    if not _before:
        _before.append(gc.get_threshold())
        if _before[0][0] > 0:  # else the user has switched it off
            gc.set_threshold(_WHILE_LOADING)


def resume() -> None:
    """Takes what is there now for permanent, and lets the collector work as before `rest`.

    Objects that the program has made before are among them; they go when nothing refers to them
    any more, as most objects do, but a ring of them that nobody uses stays.
    """
    if _before:
        gc.freeze()
        gc.set_threshold(*_before.pop())
