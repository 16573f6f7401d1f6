"""Tracebacks that show the program's own lines.

An error of a step comes out of twenty frames of Millrace that say nothing to who wrote the program;
the message itself names the op and the line that built it. So uncaught errors are shown without
these frames, in a terminal and in a notebook. MILLRACE_FULL_TRACEBACK=1 shows all.
"""

from __future__ import annotations

import builtins
import os
import sys
import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Any

#: Set to 1, it leaves tracebacks as they are.
FULL = "MILLRACE_FULL_TRACEBACK"

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
_COMMANDS = f"{_PACKAGE}cli{os.sep}"
_INSTALLED = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib")
)


def is_of_program(filename: str) -> bool:
    """Whether a line is the program's: not Python's, not Millrace's, nothing that is installed."""
    return not filename.startswith(("<frozen", _PACKAGE, *_INSTALLED))


def strip(error: BaseException) -> int:
    """Takes Millrace's frames out of an error's traceback, and out of those it came from.

    Errors that were raised and handled inside Millrace go as a whole. A traceback that has no line
    of a program stays as it is.

    Returns:
      How many frames were taken out.
    """
    return _strip(error, set())


def _strip(error: BaseException, seen: set[int]) -> int:
    if id(error) in seen:  # errors that are each other's causes
        return 0
    seen.add(id(error))
    frames = _frames(error.__traceback__)
    kept = _of_program(frames)
    left_out = len(frames) - len(kept) if kept else 0
    if left_out:
        error.__traceback__ = _joined(kept)
    for earlier in (error.__cause__, error.__context__):
        if earlier is None or (earlier is error.__context__ and error.__suppress_context__):
            continue
        if _of_program(_frames(earlier.__traceback__)):
            left_out += _strip(earlier, seen)
        elif any(_is_millraces(each) for each in _frames(earlier.__traceback__)):
            left_out += len(_frames(earlier.__traceback__))
            if earlier is error.__cause__:
                error.__cause__ = None
            error.__suppress_context__ = True
    return left_out


def install() -> None:
    """Shows uncaught errors that way, in this process."""
    if os.environ.get(FULL, "") not in ("", "0"):
        return
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show
    get_shell = getattr(builtins, "get_ipython", None)
    shell = get_shell() if get_shell is not None else None
    if shell is not None:
        shell.set_custom_exc((Exception,), _show_in_notebook)


def show(error: BaseException) -> None:
    """Prints an error as an uncaught one is shown."""
    _show(type(error), error, error.__traceback__)


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    full = os.environ.get(FULL, "") not in ("", "0")
    left_out = 0 if full else strip(error)
    sys.__excepthook__(kind, error, error.__traceback__)
    if left_out and sys.stderr is not None:
        print(_note(left_out), file=sys.stderr)


def _show_in_notebook(
    shell: Any, kind: Any, error: BaseException, trace: Any, tb_offset: int | None = None
) -> None:
    left_out = strip(error)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)
    if left_out:
        print(_note(left_out), file=sys.stderr)


def _note(count: int) -> str:
    frames = "1 frame" if count == 1 else f"{count} frames"
    return f"({frames} of Millrace left out; {FULL}=1 shows all)"


def _frames(trace: TracebackType | None) -> list[TracebackType]:
    found = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def _is_millraces(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def _of_program(frames: list[TracebackType]) -> list[TracebackType]:
    """The frames without Millrace's, and without what Millrace calls."""
    names = [entry.tb_frame.f_code.co_filename for entry in frames]
    # What comes before a command of Millrace has only started the program.
    begin = max((i + 1 for i, name in enumerate(names) if name.startswith(_COMMANDS)), default=0)
    kept = []
    inside = False
    for entry, name in zip(frames[begin:], names[begin:], strict=True):
        if name.startswith(_PACKAGE):
            inside = True
        elif is_of_program(name) or not (inside or name.startswith("<frozen")):
            inside = False
            kept.append(entry)
    return kept


def _joined(entries: list[TracebackType]) -> TracebackType | None:
    trace: TracebackType | None = None
    for entry in reversed(entries):
        trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trace
