"""How many Python functions a process calls, and which, in all of its threads.

Threads count that are started after `watch_new_threads`. Calls into C are not counted, and a
generator counts each time that it goes on.
"""

from __future__ import annotations

import collections
import pathlib
import threading
import types

#: Calls by thread and function: no two threads write to one place.
_counts: dict[int, collections.Counter[types.CodeType]] = collections.defaultdict(
    collections.Counter
)


def _note(frame: types.FrameType, event: str, _: object) -> None:
    if event == "call":
        _counts[threading.get_ident()][frame.f_code] += 1


def watch_new_threads() -> None:
    """Counts in every thread that is started from now on."""
    threading.setprofile(_note)


def total() -> int:
    """All calls so far."""
    return sum(sum(each.values()) for each in list(_counts.values()))


def by_function() -> collections.Counter[str]:
    """All calls so far, by the function's name and place."""
    found: collections.Counter[str] = collections.Counter()
    for each in list(_counts.values()):
        for code, count in list(each.items()):
            path = pathlib.Path(code.co_filename)
            place = "/".join(path.parts[-2:])
            found[f"{place}:{code.co_firstlineno} {code.co_qualname}"] += count
    return found
