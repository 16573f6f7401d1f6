"""The text of a program: its script, and the modules of its own that it imports.

A program's flags may be defined in a module beside it. Nothing is run to find that out: imports
are followed by name, in Python 2 sources too, in the folder of the script and below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

#: A program of more files is read so far; its flags are among the first.
MAX_FILES = 200

_IMPORT = re.compile(r"^[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)
_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]+)", re.MULTILINE)


def text_of(script: Path) -> str:
    """The script's text, followed by that of its own modules.

    Raises:
      OSError: The script cannot be read.
    """
    return "\n".join(text for _, text in files_of(script))


def files_of(script: Path) -> list[tuple[Path, str]]:
    """The script and its own modules, with their texts.

    Raises:
      OSError: The script cannot be read.
    """
    root = script.resolve().parent
    waiting, seen = [script.resolve()], {script.resolve()}
    texts: list[tuple[Path, str]] = []
    while waiting and len(texts) < MAX_FILES:
        path = waiting.pop(0)
        try:
            text = path.read_text(errors="replace")
        except OSError:
            if not texts:
                raise
            continue  # a module that is not readable: running the program will tell
        texts.append((path, text))
        for found in _modules(text, path, root):
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return texts


def _modules(text: str, path: Path, root: Path) -> Iterator[Path]:
    """The files of the program's own that a text imports."""
    for match in _IMPORT.finditer(text):
        for part in match[1].split(","):
            yield from _files(part.split()[:1], path, root)
    for match in _FROM.finditer(text):
        names = re.findall(r"(?:^|,)\s*(\w+)", match[2].strip("()"))
        # What is imported from a package may be a module of it.
        separator = "" if match[1].endswith(".") else "."
        yield from _files([match[1], *(match[1] + separator + name for name in names)], path, root)


def _files(names: list[str], path: Path, root: Path) -> Iterator[Path]:
    for name in names:
        bare = name.lstrip(".")
        level = len(name) - len(bare)
        folders = [path.parents[min(level - 1, len(path.parents) - 1)]] if level else [root]
        if not level and path.parent != root:
            folders.append(path.parent)  # Python 2 looks beside the module first.
        parts = bare.split(".") if bare else []
        for folder in folders:
            for count in range(len(parts) + 1):
                base = folder.joinpath(*parts[:count])
                candidates = [base / "__init__.py"]
                if count:
                    candidates.append(base.with_name(base.name + ".py"))
                for file in candidates:
                    if count + level and file.is_file() and root in file.resolve().parents:
                        yield file.resolve()
