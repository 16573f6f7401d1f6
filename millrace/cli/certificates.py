"""`millrace certificates`: keys for a job whose tasks are started by hand."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from millrace.rpc import certificates

SUMMARY = "make an authority and certificates for a job on several machines"
FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where, for which machines, for whom, for how long."""
    parser.add_argument("folder", type=Path, help="is made; only its owner can read it")
    parser.add_argument("--hosts", required=True, help="names and addresses of the machines: a,b,c")
    parser.add_argument("--names", default="task,client", help="a certificate each (task,client)")
    parser.add_argument(
        "--days",
        type=float,
        default=certificates.DEFAULT_DAYS,
        help=f"how long they are valid ({certificates.DEFAULT_DAYS:.0f})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the files and prints the variables that use them."""
    names = [name for name in arguments.names.split(",") if name]
    hosts = [host for host in arguments.hosts.split(",") if host]
    try:
        made = certificates.make_folder(arguments.folder, names, hosts, arguments.days)
    except OSError as error:
        print(f"millrace certificates: {error}", file=sys.stderr)
        return FAILED
    for name, variables in made.items():
        print(f"# {name}")
        for variable, value in variables.items():
            print(f"export {variable}={value}")
    return 0
