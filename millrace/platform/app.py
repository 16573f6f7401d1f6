"""tf.app: starts a program. `tf.app.flags` is tf.flags."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app as absl_app
from absl import logging as absl_logging

from millrace.platform import flags, logging

__all__ = ["flags", "run"]


def _parse_flags(argv: Sequence[str] | None) -> list[str]:
    # absl's start has just put its handler on the root logger; our lines keep our format, once.
    absl_logging.get_absl_handler().addFilter(logging.leave_to_console)
    try:
        return flags.parse(sys.argv if argv is None else argv)
    except flags.Error as error:
        # A mistake on the command line is the caller's: a sentence, not a traceback.
        print(f"{error}\nPass --help to see the flags of this program.", file=sys.stderr)
        sys.exit(1)


def run(
    main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None
) -> NoReturn:
    """Parses the flags, calls `main(remaining argv)` and exits with what it returns.

    Args:
      main: Called with the program's name and all arguments that are not defined flags. By
        default the function `main` of the program that was started.
      argv: The command line, program name first; by default `sys.argv`.

    Raises:
      AttributeError: No `main` was given and the program has none.
    """
    if main is None:
        main = getattr(sys.modules["__main__"], "main", None)
        if main is None:
            raise AttributeError(
                "tf.app.run() was called without a function, and the program has no function "
                "named main; define main(argv) or pass one: tf.app.run(main=train)"
            )
    absl_app.run(main, argv=None if argv is None else list(argv), flags_parser=_parse_flags)
    raise AssertionError("absl.app.run exits the program and does not return")
