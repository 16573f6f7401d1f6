"""`millrace version`: the version alone, for scripts."""

import argparse

from millrace.platform.version import MILLRACE

SUMMARY = "print the version of Millrace"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing."""


def run(arguments: argparse.Namespace) -> int:
    """Prints the version."""
    print(MILLRACE)
    return 0
