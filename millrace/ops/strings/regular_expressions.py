"""Regular expressions by RE2, the library that TensorFlow uses.

RE2 matches in time linear in the text, whatever the pattern: a pattern that a client sends cannot
stall the server, as one for Python's `re` could. It works on bytes that are UTF-8; text that is
not keeps its bytes. A rewrite knows ``\\0`` to ``\\9`` and ``\\\\``.
"""

from __future__ import annotations

import functools
import re
from typing import Protocol

import re2

from millrace.platform import limits

_REWRITE = re.compile(rb"\\(.?)", re.DOTALL)


class Match(Protocol):
    """What a pattern found."""

    def start(self) -> int: ...

    def end(self) -> int: ...

    def __getitem__(self, group: int) -> bytes | None: ...


class Pattern(Protocol):
    """A compiled pattern."""

    groups: int

    def fullmatch(self, text: bytes) -> Match | None: ...

    def search(self, text: bytes, pos: int) -> Match | None: ...


@functools.lru_cache(256)
def compile_pattern(pattern: bytes) -> Pattern:
    """A compiled pattern.

    Raises:
      ValueError: It is not a regular expression.
    """
    options = re2.Options()
    options.log_errors = False  # the error says it
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        text = pattern.decode(errors="replace")
        reason = error.args[0].decode(errors="replace")
        raise ValueError(f"Invalid pattern: {text}, error: {reason}") from None
    return compiled


def full_match(pattern: Pattern, string: bytes) -> bool:
    """Whether the whole string matches."""
    return pattern.fullmatch(string) is not None


def replace(pattern: Pattern, rewrite: bytes, string: bytes, everywhere: bool) -> bytes:
    """The string with its first match, or all of them, rewritten.

    As in TensorFlow, an empty match right after another match does not count, and a string is
    left as it is when the rewrite names a group that the pattern does not have.
    """
    groups = [int(m[1]) for m in _REWRITE.finditer(rewrite) if m[1].isdigit()]
    if any(group > pattern.groups for group in groups):
        return string
    pieces: list[bytes] = []
    size, most = len(string), limits.STRING_BYTES.value
    last_end, position = 0, 0
    previous_match_end = -1
    while position <= len(string):
        match = pattern.search(string, position)
        if match is None:
            break
        start, end = match.start(), match.end()
        if start == end == previous_match_end:
            position = _after_character(string, end)
            continue
        pieces.append(string[last_end:start])
        rewritten = _expanded(match, rewrite)
        if rewritten is None:
            return b"".join(pieces) + string[end:]
        pieces.append(rewritten)
        size += len(rewritten)
        if size > most:
            raise limits.STRING_BYTES.error(size, "Bytes of a string with its matches rewritten")
        last_end = previous_match_end = end
        position = end if end > start else _after_character(string, end)
        if not everywhere:
            break
    return b"".join(pieces) + string[last_end:]


def _after_character(string: bytes, position: int) -> int:
    """Where the UTF-8 character at a position ends."""
    position += 1
    while position < len(string) and string[position] & 0xC0 == 0x80:
        position += 1
    return position


def _expanded(match: Match, rewrite: bytes) -> bytes | None:
    """The rewrite with its groups filled in; None when it has a wrong escape."""
    wrong = False

    def fill(escape: re.Match[bytes]) -> bytes:
        nonlocal wrong
        char = escape[1]
        if char.isdigit():
            return match[int(char)] or b""
        if char == b"\\":
            return b"\\"
        wrong = True
        return b""

    result = _REWRITE.sub(fill, rewrite)
    return None if wrong else result
