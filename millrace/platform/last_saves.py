"""What a process that is asked to end saves first.

The chief's checkpoint hook and the Supervisor's checkpoint thread are kept here while their session
is open; `cli/orderly_end.py`, which ends the process, calls them. They are held weakly: one that
is gone has nothing to save. A save runs beside the training, in a thread of its own, and must not
count on the main thread.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Protocol

from millrace.platform import logging


class SavesLast(Protocol):
    """Can save the model at any moment, from any thread."""

    def save_last(self) -> None:
        """Saves what there is now."""


_kept: weakref.WeakSet[SavesLast] = weakref.WeakSet()


def keep(saver: SavesLast) -> None:
    """Has `saver` called before the process ends."""
    _kept.add(saver)


def drop(saver: SavesLast) -> None:
    """Forgets a saver, whose session has ended."""
    _kept.discard(saver)


def are_due() -> bool:
    """Whether anything would be saved."""
    return bool(_kept)


def save_all(seconds: float) -> None:
    """Lets all of them save, for so many seconds at most; then none is due any more."""
    threads = [threading.Thread(target=_save, args=(saver,), daemon=True) for saver in list(_kept)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        logging.warning("The last checkpoint was not complete after %.0f s: it is left.", seconds)
    _kept.clear()


def _save(saver: SavesLast) -> None:
    try:
        saver.save_last()
    except Exception as error:
        logging.warning("The last checkpoint could not be saved: %s", error)
