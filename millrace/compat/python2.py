"""Python 2 sources, made into Python 3 in memory."""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import importlib
import io
import logging
import os
import re
import tempfile
from pathlib import Path
from types import ModuleType

import fissix  # lib2to3, which Python itself no longer has
from fissix.pgen2 import tokenize

_FIXERS = (
    "apply basestring dict except exec execfile filter funcattrs has_key idioms imports input "
    "intern isinstance itertools itertools_imports long map methodattrs ne next nonzero "
    "numliterals paren print raise raw_input reduce repr standarderror sys_exc throw "
    "tuple_params types unicode urllib xrange xreadlines zip"
).split()
#: Names that only Python 2 has; a source that parses in Python 3 but uses one is translated too.
_ONLY_IN_2 = re.compile(
    r"\b(xrange|raw_input|unicode|basestring|execfile)\s*\(|\.(iteritems|itervalues|iterkeys|has_key)\s*\("
    r"|^\s*import\s+(cPickle|ConfigParser|Queue|urllib2|StringIO)\b",
    re.MULTILINE,
)


#: What Python 3 says first of a source that is Python 2.
_SAID_OF_2 = re.compile(
    r"Missing parentheses in call to '(print|exec)'|exception types must be parenthesized"
)


def needs_translation(source: str) -> bool:
    """Whether a source is Python 2, not 3: Python 3 cannot read it, and as Python 2 it can be read.

    A source that is neither is left to Python 3, which says best what is wrong with it; unless
    what it stumbles over is Python 2's.
    """
    try:
        ast.parse(source)
    except SyntaxError as error:
        if _SAID_OF_2.search(str(error)):
            return True
        try:
            translate(source, "")
        except SyntaxError:
            return False
        return True
    except ValueError:  # a null byte
        return False
    return bool(_ONLY_IN_2.search(source))


def translate(source: str, name: str) -> str:
    """The source of Python 2 in Python 3.

    Raises:
      SyntaxError: It is neither.
    """
    source = _with_spaces(_with_final_newline(source))
    with contextlib.suppress(SyntaxError):
        ast.parse(source)
        if not _ONLY_IN_2.search(source):
            return source  # only its indentation was Python 2's
    logging.getLogger("fissix").setLevel(logging.ERROR)
    fixers = [f"fissix.fixes.fix_{fixer}" for fixer in _FIXERS]
    tool = _refactor().RefactoringTool(fixers)
    try:
        translated = str(tool.refactor_string(source, name))
    except Exception as error:  # fissix has its own classes for tokens and grammar
        raise _as_syntax_error(error, source, name) from None
    ast.parse(translated, name)
    return translated


@functools.cache
def _refactor() -> ModuleType:
    """The translator, loaded for the first source that needs it.

    It writes its tables into the user's cache as it loads. Pods often run as a user without a
    home: then they are in a folder that goes when the process does.
    """
    try:
        fissix.CACHE_DIR.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(fissix.CACHE_DIR, os.W_OK)
    except OSError:
        is_writable = False
    if not is_writable:
        folder = tempfile.TemporaryDirectory(prefix="millrace-python2-")
        atexit.register(folder.cleanup)
        fissix.CACHE_DIR = Path(folder.name)
    return importlib.import_module("fissix.refactor")


def _as_syntax_error(error: Exception, source: str, name: str) -> SyntaxError:
    """What the reader of Python 2 says, as Python says such things."""
    line, column = getattr(error, "context", ("", (0, 0)))[1]
    if not line:
        return SyntaxError(f"invalid Python 2 syntax: {error}")
    text = (source.splitlines(keepends=True) + [""])[line - 1]
    return SyntaxError("invalid Python 2 syntax", (name, line, column + 1, text))


def _with_spaces(source: str) -> str:
    """The source with spaces for the tabs that indent it: to the next eighth column, as in 2."""
    in_strings: set[int] = set()
    try:
        for kind, _, (first, _), (last, _), _ in tokenize.generate_tokens(
            io.StringIO(source).readline
        ):
            if kind == tokenize.STRING:
                in_strings.update(range(first + 1, last + 1))
    except (tokenize.TokenError, IndentationError):
        return source  # who parses it says what is wrong
    lines = source.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        rest = line.lstrip(" \t")
        indentation = line[: len(line) - len(rest)]
        if "\t" in indentation and number not in in_strings:
            lines[number - 1] = indentation.expandtabs(8) + rest
    return "".join(lines)


def _with_final_newline(source: str) -> str:
    return source if source.endswith("\n") else source + "\n"
