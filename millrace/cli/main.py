"""`millrace <command>`: chooses the command, says so if there is none of that name.

A command is a module with a one-line SUMMARY, `add_arguments(parser)` and `run(arguments)`, which
returns the exit code. To add one, write the module and name it in COMMANDS.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from millrace.cli import (
    certificates,
    check,
    checkpoint,
    consistency,
    dashboard,
    doctor,
    import_hook,
    info,
    launch,
    logs,
    manifest,
    move,
    plan,
    run,
    server,
    status,
    stop,
    task,
    version,
)
from millrace.platform.version import MILLRACE

USAGE_ERROR = 2
INTERRUPTED = 130


class Command(Protocol):
    """What a module of this folder offers."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, arguments: argparse.Namespace) -> int: ...


COMMANDS: dict[str, Command] = {
    "run": run,
    "check": check,
    "launch": launch,
    "task": task,
    "manifest": manifest,
    "server": server,
    "status": status,
    "logs": logs,
    "stop": stop,
    "consistency": consistency,
    "move": move,
    "checkpoint": checkpoint,
    "doctor": doctor,
    "dashboard": dashboard,
    "plan": plan,
    "certificates": certificates,
    "import-hook": import_hook,
    "info": info,
    "version": version,
}


class _Parser(argparse.ArgumentParser):
    """argparse, except that a mistake is one sentence without the usage before it.

    An option whose value may be left out takes it after ``=`` only: the next word is another
    argument's, as people expect.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As of argparse."""
        words = list(sys.argv[1:] if args is None else args)
        i = 0
        while i < len(words) and words[i].startswith("-") and words[i] != "--":
            option = self._option_string_actions.get(words[i])
            if option is not None and option.nargs == argparse.OPTIONAL:
                words[i] = f"{words[i]}={option.const}"
            i += 2 if option is not None and option.nargs is None else 1
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (try `{self.prog} --help`)", file=sys.stderr)
        raise SystemExit(USAGE_ERROR)


def _parser() -> _Parser:
    listing = "\n".join(f"  {name:<12} {command.SUMMARY}" for name, command in COMMANDS.items())
    parser = _Parser(
        prog="millrace",
        usage="millrace [--version] [--help] <command> [arguments]",
        description="Distributed TensorFlow 1.x programs on JAX and XLA.",
        epilog=f"commands:\n{listing}\n\n`millrace <command> --help` explains one of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"millrace {MILLRACE}")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    advice = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(COMMANDS)}."
    return f"millrace: `{name}` is not a command; {advice}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
      argv: The arguments without the program's name; by default those of the process.

    Returns:
      The exit code: 0 after success, 2 if the command line cannot be understood.
    """
    parser = _parser()
    chosen = parser.parse_args(argv)
    if chosen.command is None:
        parser.print_help()
        return 0
    command = COMMANDS.get(chosen.command)
    if command is None:
        print(_unknown(chosen.command), file=sys.stderr)
        return USAGE_ERROR
    command_parser = _Parser(prog=f"millrace {chosen.command}", description=command.SUMMARY)
    command.add_arguments(command_parser)
    given = command_parser.parse_args(chosen.arguments)
    if chosen.command in ("run", "task"):
        return command.run(given)  # it is the program's business what Ctrl-C does
    try:
        return command.run(given)
    except KeyboardInterrupt:
        return INTERRUPTED
