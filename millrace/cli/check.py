"""`millrace check SCRIPT`: which TensorFlow names a program uses that Millrace lacks."""

from __future__ import annotations

import argparse
import ast
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from millrace.cli import program_source
from millrace.compat import python2, replacements, tensorflow_import, used_names

SUMMARY = "list the TensorFlow names of a program that Millrace lacks, without running it"
MISSING = 1
USAGE_ERROR = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The programs."""
    parser.add_argument("--json", action="store_true", help="the findings, as one JSON object")
    parser.add_argument("scripts", nargs="+", metavar="script", help="a Python 3 or 2 program")


def run(arguments: argparse.Namespace) -> int:
    """Looks at the programs and the modules of their own that they import."""
    tensorflow_import.install()
    found: list[dict[str, Any]] = []
    names: set[str] = set()
    for script in map(Path, arguments.scripts):
        if not script.is_file():
            print(f"millrace check: there is no file {script}", file=sys.stderr)
            return USAGE_ERROR
        for path, text in program_source.files_of(script):
            try:
                tree = _parsed(text, str(path))
            except SyntaxError as error:
                traceback.print_exception(error.with_traceback(None))
                return USAGE_ERROR
            except ValueError as error:
                print(f"millrace check: {path} is no Python program: {error}", file=sys.stderr)
                return USAGE_ERROR
            uses = used_names.names_in(tree)
            names.update(use.name for use in uses)
            found += _missing(uses, path)
    if arguments.json:
        print(json.dumps({"names": len(names), "missing": found}, indent=2))
        return MISSING if found else 0
    for each in found:
        print(f"{each['file']}:{each['line']}: {each['sentence']}")
    print(_summary(len(names), len({each["name"] for each in found})))
    return MISSING if found else 0


def _parsed(text: str, name: str) -> ast.Module:
    source = text.replace("\r\n", "\n")
    if python2.needs_translation(source):
        source = python2.translate(source, name)
    return ast.parse(source, name)


def _missing(uses: list[used_names.Use], path: Path) -> list[dict[str, Any]]:
    """What is missing in a file, each name where it is used first."""
    found: dict[str, dict[str, Any]] = {}
    for use in uses:
        missing = used_names.first_missing(use.name)
        if missing is not None and missing not in found:
            found[missing] = {
                "name": replacements.public_name(missing),
                "file": str(path),
                "line": use.line,
                "sentence": replacements.describe_missing(missing),
            }
    return list(found.values())


def _summary(count: int, missing: int) -> str:
    if not count:
        return "No names of TensorFlow are used."
    used = "1 name" if count == 1 else f"{count} names"
    if not missing:
        return f"{used} of TensorFlow used, none missing."
    return f"{used} of TensorFlow used, {missing} missing."
