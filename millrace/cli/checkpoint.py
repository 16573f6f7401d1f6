"""`millrace checkpoint compact DIR`: makes a full checkpoint of an incremental one."""

from __future__ import annotations

import argparse
import sys

from millrace.core import errors
from millrace.data import delta_bundle
from millrace.training.checkpoint.reader import checkpoint_filename

SUMMARY = "make a full checkpoint, which TensorFlow reads, of an incremental one"
_FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, and with which checkpoint."""
    parser.add_argument("action", choices=["compact"], help="write it as a full one")
    parser.add_argument(
        "checkpoint", help="a folder, of which the newest one is taken, or a name as model.ckpt-200"
    )


def run(arguments: argparse.Namespace) -> int:
    """Replaces the checkpoint by a full one of the same name."""
    try:
        prefix = checkpoint_filename(arguments.checkpoint)
        if prefix is None:
            return _fail(f"there is no checkpoint in {arguments.checkpoint}")
        base = delta_bundle.compact(prefix)
    except (errors.OpError, ValueError) as error:
        return _fail(error.message if isinstance(error, errors.OpError) else str(error))
    if base is None:
        print(f"{prefix} is a full checkpoint already")
    else:
        print(f"{prefix} is a full checkpoint now; it does not need {base} any more")
    return 0


def _fail(sentence: str) -> int:
    print(f"millrace checkpoint: {sentence}", file=sys.stderr)
    return _FAILED
