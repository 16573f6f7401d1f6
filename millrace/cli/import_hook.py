"""`millrace import-hook on|off|status`: `import tensorflow` for a whole environment."""

from __future__ import annotations

import argparse
import sys
import sysconfig
from pathlib import Path

from millrace.compat import environment_switch

SUMMARY = "let every `import tensorflow` of this environment import Millrace, or take that back"
FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """On or off, and where."""
    parser.add_argument("what", choices=("on", "off", "status"))
    parser.add_argument(
        "--site-packages",
        type=Path,
        default=Path(sysconfig.get_path("purelib")),
        help="the environment's folder of packages (that of this interpreter)",
    )
    parser.add_argument(
        "--force", action="store_true", help="also where a TensorFlow is installed: it is hidden"
    )


def run(arguments: argparse.Namespace) -> int:
    """Does it, and says what holds now."""
    folder: Path = arguments.site_packages
    if not folder.is_dir():
        print(f"millrace import-hook: there is no folder {folder}", file=sys.stderr)
        return FAILED
    found = environment_switch.real_tensorflow(folder)
    if arguments.what == "on" and found is not None and not arguments.force:
        print(
            f"millrace import-hook: TensorFlow is installed in this environment ({found}) and "
            "would be hidden; say --force if that is meant",
            file=sys.stderr,
        )
        return FAILED
    try:
        if arguments.what == "on":
            environment_switch.switch_on(folder)
        elif arguments.what == "off":
            environment_switch.switch_off(folder)
    except OSError as error:
        print(f"millrace import-hook: {error}", file=sys.stderr)
        return FAILED
    if environment_switch.is_on(folder):
        print(f"on: `import tensorflow` imports Millrace in {folder}")
    elif found is not None:
        print(f"off: `import tensorflow` imports TensorFlow ({found})")
    else:
        print(f"off: `import tensorflow` finds nothing in {folder}")
    return 0
