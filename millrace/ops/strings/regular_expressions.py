"""RE2's dialect of regular expressions on Python's `re`.

TensorFlow's patterns are RE2's: on UTF-8 text, ASCII classes, ``$`` only at the very end, POSIX
classes, ``\\z``, ``\\Q...\\E``; a rewrite knows ``\\0`` to ``\\9`` and ``\\\\``. Text that is not
UTF-8 keeps its bytes.
"""

from __future__ import annotations

import functools
import re

from millrace.platform import limits

_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": r"0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_REWRITE = re.compile(r"\\(.?)", re.DOTALL)


@functools.lru_cache(256)
def compile_pattern(pattern: bytes) -> re.Pattern[str]:
    """A compiled pattern.

    Raises:
      ValueError: It is not a regular expression.
    """
    source = decode(pattern)
    try:
        return re.compile(_translated(source), re.ASCII)
    except re.error as error:
        raise ValueError(f"Invalid pattern: {source}, error: {_complaint(error, source)}") from None


def _complaint(error: re.error, source: str) -> str:
    if "unterminated subpattern" in error.msg:
        return f"missing ): {source}"
    if "unbalanced parenthesis" in error.msg:
        return f"unexpected ): {source}"
    if "nothing to repeat" in error.msg:
        return f"no argument for repetition operator: {source}"
    if "unterminated character set" in error.msg:
        return f"missing ]: {source}"
    return f"{error.msg}: {source}"


def _translated(source: str) -> str:
    """The pattern in Python's dialect."""
    if "(?m" in source or "(?sm" in source or "(?im" in source:
        end_of_text = "$"
    else:
        end_of_text = r"\Z"
    result: list[str] = []
    i, in_class = 0, False
    while i < len(source):
        char = source[i]
        if char == "\\" and i + 1 < len(source):
            following = source[i + 1]
            if following == "Q":
                end = source.find(r"\E", i + 2)
                end = len(source) if end < 0 else end
                result.append(re.escape(source[i + 2 : end]))
                i = end + 2
                continue
            result.append(r"\Z" if following == "z" and not in_class else char + following)
            i += 2
            continue
        if in_class and source.startswith("[:", i):
            end = source.find(":]", i)
            name = source[i + 2 : end] if end > 0 else ""
            if name in _POSIX_CLASSES:
                result.append(_POSIX_CLASSES[name])
                i = end + 2
                continue
            result.append(r"\[")
        elif in_class and char == "[":
            result.append(r"\[")
        elif char == "[" and not in_class:
            in_class = True
            result.append(char)
            # A "]" that comes first belongs to the class.
            if source.startswith("^", i + 1):
                result.append("^")
                i += 1
            if source.startswith("]", i + 1):
                result.append(r"\]")
                i += 1
        elif char == "]" and in_class:
            in_class = False
            result.append(char)
        elif char == "$" and not in_class:
            result.append(end_of_text)
        else:
            result.append(char)
        i += 1
    return "".join(result)


def decode(string: bytes) -> str:
    """Text of a byte string; bytes that are no UTF-8 survive `encode`."""
    return string.decode("utf-8", "surrogateescape")


def encode(string: str) -> bytes:
    """The byte string of a text."""
    return string.encode("utf-8", "surrogateescape")


def full_match(pattern: re.Pattern[str], string: bytes) -> bool:
    """Whether the whole string matches."""
    return pattern.fullmatch(decode(string)) is not None


def replace(pattern: re.Pattern[str], rewrite: bytes, string: bytes, everywhere: bool) -> bytes:
    """The string with its first match, or all of them, rewritten.

    As in RE2, an empty match right after another match does not count, and a string is left as
    it is when the rewrite names a group that the pattern does not have.
    """
    source, target = decode(string), decode(rewrite)
    groups = [int(m[1]) for m in _REWRITE.finditer(target) if m[1].isdigit()]
    if any(group > pattern.groups for group in groups):
        return string
    pieces: list[str] = []
    size, most = len(source), limits.STRING_BYTES.value
    last_end, position = 0, 0
    previous_match_end = -1
    while position <= len(source):
        match = pattern.search(source, position)
        if match is None:
            break
        if match.end() == match.start() == previous_match_end:
            # Empty and adjacent: step over one character.
            position = match.end() + 1
            continue
        pieces.append(source[last_end : match.start()])
        rewritten = _expanded(match, target)
        if rewritten is None:
            return encode("".join(pieces) + source[match.end() :])
        pieces.append(rewritten)
        size += len(rewritten)
        if size > most:
            raise limits.STRING_BYTES.error(size, "Bytes of a string with its matches rewritten")
        last_end = previous_match_end = match.end()
        position = match.end() if match.end() > match.start() else match.end() + 1
        if not everywhere:
            break
    return encode("".join(pieces) + source[last_end:])


def _expanded(match: re.Match[str], rewrite: str) -> str | None:
    """The rewrite with its groups filled in; None when it has a wrong escape."""
    wrong = False

    def fill(escape: re.Match[str]) -> str:
        nonlocal wrong
        char = escape[1]
        if char.isdigit():
            return match[int(char)] or ""
        if char == "\\":
            return "\\"
        wrong = True
        return ""

    result = _REWRITE.sub(fill, rewrite)
    return None if wrong else result
