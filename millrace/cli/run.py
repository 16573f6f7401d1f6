"""`millrace run SCRIPT`: runs a TensorFlow 1 program, unchanged, on Millrace."""

from __future__ import annotations

import argparse
import ast
import importlib.machinery
import importlib.util
import json
import linecache
import sys
import tokenize
import traceback
import types
from pathlib import Path
from typing import Any

from millrace.cli import orderly_end
from millrace.compat import (
    numpy1,
    older_messages,
    older_python,
    python2,
    python2_modules,
    replacements,
    tensorflow_import,
)
from millrace.platform import tracebacks
from millrace.platform.launcher import end_with_launcher

SUMMARY = "run a program that says `import tensorflow`, unchanged"
#: Exit codes.
FAILED = 1
USAGE_ERROR = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The script, and what it is given."""
    parser.add_argument(
        "--hosts",
        help="addresses by job, as JSON: lists that the program assigns to ps_hosts and "
        "worker_hosts become these",
    )
    parser.add_argument(
        "-m",
        dest="is_module",
        action="store_true",
        help="SCRIPT is the name of a module, as of `python -m`",
    )
    parser.add_argument("script", help="a Python 3 or Python 2 program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def run(arguments: argparse.Namespace) -> int:
    """Runs the script as if it were the program."""
    end_with_launcher()
    orderly_end.install()
    tensorflow_import.install()
    numpy1.install()
    older_python.install()
    older_messages.install()
    module = types.ModuleType("__main__")
    folder = Path.cwd() if arguments.is_module else Path(arguments.script).resolve().parent
    sys.path.insert(0, str(folder))
    python2_modules.install(folder, _translated)
    path = Path(arguments.script)
    if arguments.is_module:
        try:
            spec = _find_module(arguments.script)
        except ImportError as error:
            print(f"millrace run: {error}", file=sys.stderr)
            return USAGE_ERROR
        path = Path(str(spec.origin))
        module.__spec__, module.__package__ = spec, spec.parent
    if not path.is_file():
        print(f"millrace run: there is no file {path}", file=sys.stderr)
        return USAGE_ERROR
    try:
        code = load(path, json.loads(arguments.hosts) if arguments.hosts else {})
    except (SyntaxError, ValueError) as error:
        if isinstance(error, SyntaxError) and error.lineno is not None:
            traceback.print_exception(error.with_traceback(None))  # as Python shows it
        else:  # bytes that are no text
            print(f"millrace run: {path} is no Python program: {error}", file=sys.stderr)
        return FAILED
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    sys.argv = [str(path), *arguments.arguments]
    try:
        exec(code, module.__dict__)
    except (AttributeError, ImportError) as error:
        if (complaint := complaint_about(error, path)) is None:
            raise
        tracebacks.show(error)
        print(f"millrace run: {complaint}", file=sys.stderr)
        return FAILED
    return 0


def _find_module(name: str) -> importlib.machinery.ModuleSpec:
    """Where a module is that is to be run; a package's is its ``__main__``.

    Raises:
      ImportError: There is none, or it has no source.
    """
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ImportError(f"there is no module {name} with a Python source in {sys.path[0]}")
    return spec


def load(path: Path, hosts: dict[str, list[str]] | None = None) -> Any:
    """The compiled program; a Python 2 source is translated, and that is said.

    Args:
      path: The program.
      hosts: Addresses by job that take the place of those in the program.

    Raises:
      SyntaxError: It is no Python.
    """
    data = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(iter(data.splitlines(keepends=True)).__next__)
    source = data.decode(encoding).replace("\r\n", "\n")
    if python2.needs_translation(source):
        source = _translated(source, str(path))
    tree = ast.parse(source, str(path))
    if hosts:
        tree = ast.fix_missing_locations(_HostReplacer(hosts).visit(tree))
    return compile(tree, str(path), "exec", dont_inherit=True)


def _translated(source: str, path: str) -> str:
    """A source of Python 2 as one of Python 3; says so."""
    source = python2.translate(source, path)
    print(
        f"millrace run: {path} is Python 2; running it as Python 3 (translated in memory, the "
        "file is as it was).",
        file=sys.stderr,
    )
    # Tracebacks show the lines that run.
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    return source


class _HostReplacer(ast.NodeTransformer):
    """Puts other addresses into ``ps_hosts = ["..."]``, of any job."""

    def __init__(self, hosts: dict[str, list[str]]) -> None:
        self._hosts = hosts

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        """Replaces the list in an assignment to the hosts of a job."""
        target = node.targets[0]
        if isinstance(target, ast.Name) and isinstance(node.value, ast.List):
            addresses = self._hosts.get(target.id.removesuffix("_hosts").removesuffix("_spec"))
            if addresses is not None:
                node.value = ast.List([ast.Constant(a) for a in addresses], ast.Load())
        return node


def complaint_about(error: AttributeError | ImportError, path: Path) -> str | None:
    """A sentence about a name of TensorFlow's that is missing, if that is the error."""
    entries = traceback.extract_tb(error.__traceback__)
    frames = [entry for entry in entries if tracebacks.is_of_program(entry.filename)]
    where = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else str(path)
    if isinstance(error, ImportError):
        if not (error.name or "").startswith((tensorflow_import.NAME, "millrace")):
            return None
        words = str(error)
        if "cannot import name" in words:
            name = words.split("'")[1]
            words = replacements.describe_missing(f"{error.name}.{name}")
        return f"{words} (used in {where})"
    owner = getattr(error, "obj", None)
    if not isinstance(owner, types.ModuleType) or not owner.__name__.startswith(
        ("millrace", tensorflow_import.NAME)
    ):
        return None
    return replacements.describe_missing(f"{owner.__name__}.{error.name}") + f" (used in {where})"
