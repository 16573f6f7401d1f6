"""Security on the command line: flags that set what the environment variables set.

A process and all that it starts take their keys from the environment; a flag only writes there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from millrace.cli.job import Task
from millrace.platform.file_access import ALLOWED_FOLDERS
from millrace.rpc import certificates
from millrace.rpc.security import (
    INSECURE,
    TLS_CA,
    TLS_CERTIFICATE,
    TLS_KEY,
    TOKEN_FILE,
    Security,
    is_loopback,
    memory_files_are_possible,
)

_FLAGS = {
    "tls_ca": (TLS_CA, "PEM file of the authority that signs the job's certificates"),
    "tls_certificate": (TLS_CERTIFICATE, "PEM file of this side's certificate"),
    "tls_key": (TLS_KEY, "PEM file of its key"),
    "token_file": (TOKEN_FILE, "file of the job's token, where TLS ends elsewhere"),
}
#: Variables that name files; a job's record may have them, but never a token itself.
FILES = (TLS_CA, TLS_CERTIFICATE, TLS_KEY, TOKEN_FILE)
#: The certificate of the launcher, and of people who look at the job.
CLIENT = "client"
#: How long certificates of a job on one machine are valid.
_DAYS = 7.0


def add_arguments(parser: argparse.ArgumentParser, serves: bool = True) -> None:
    """The keys, and for what serves, how far it trusts.

    Args:
      parser: Gets the flags.
      serves: Whether servers are started.
    """
    for name, (variable, what) in _FLAGS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", metavar="FILE", help=f"{what} ({variable})"
        )
    if serves:
        parser.add_argument(
            "--insecure",
            action="store_true",
            help=f"let servers that other machines reach go without certificates and token "
            f"({INSECURE})",
        )
        parser.add_argument(
            "--allow-folder",
            action="append",
            default=[],
            metavar="FOLDER",
            help=f"clients may read and write files below it; may be repeated ({ALLOWED_FOLDERS})",
        )


def set_environment(arguments: argparse.Namespace) -> None:
    """Puts what the flags say into the environment.

    Raises:
      ValueError: The keys cannot be read, or are not complete.
    """
    for name, (variable, _) in _FLAGS.items():
        value = getattr(arguments, name)
        if value:
            os.environ[variable] = value
    if getattr(arguments, "insecure", False):
        os.environ[INSECURE] = "1"
    folders = getattr(arguments, "allow_folder", [])
    if folders:
        os.environ[ALLOWED_FOLDERS] = os.pathsep.join(os.path.abspath(each) for each in folders)
    Security.from_environment()


@contextlib.contextmanager
def certified(tasks: Sequence[Task], wanted: bool) -> Iterator[list[Task]]:
    """The tasks of a job on this machine, each with a certificate while the job lasts."""
    if not wanted:
        yield list(tasks)
        return
    before = dict(os.environ)
    try:
        with _keys([*(task.name for task in tasks), CLIENT], hosts_of(tasks)) as keys:
            os.environ.update(keys[CLIENT])
            yield [t._replace(environment={**t.environment, **keys[t.name]}) for t in tasks]
    finally:
        for name in keys_of_environment():
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


@contextlib.contextmanager
def _keys(names: list[str], hosts: list[str]) -> Iterator[dict[str, dict[str, str]]]:
    """The variables of each name's certificate; nothing is left of them, where that is possible."""
    if memory_files_are_possible():
        kept = certificates.KeysInMemory(names, hosts, _DAYS)
        try:
            yield kept.variables
        finally:
            kept.close()
        return
    folder = Path(tempfile.mkdtemp(prefix="millrace-keys-"))  # for its owner only
    try:
        yield certificates.make_folder(folder, names, hosts, _DAYS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keys_of_environment() -> tuple[str, ...]:
    """The variables that name a certificate."""
    return TLS_CA, TLS_CERTIFICATE, TLS_KEY


def hosts_of(tasks: Sequence[Task]) -> list[str]:
    """The machines of a job."""
    places = (task.address.rpartition(":")[0] for task in tasks)
    return list(dict.fromkeys(host for host in places if host))


def prepare_for_hosts(
    tasks: Sequence[Task], folder: Path | None, watched: bool = False
) -> tuple[list[Task], list[str]]:
    """The tasks of a job on several machines, with certificates in `folder` if it is given.

    Args:
      tasks: As they are without.
      folder: Gets the certificates.
      watched: Whether this process will ask the tasks how far they are: then it has one too.

    Returns:
      The tasks, and lines that tell what else is to be done.
    """
    if folder is not None:
        names = [task.name for task in tasks]
        keys = certificates.make_folder(folder, [*names, CLIENT], hosts_of(tasks))
        if watched:
            os.environ.update(keys[CLIENT])
        lines = [
            f"# Certificates for {certificates.DEFAULT_DAYS:.0f} days are in {folder}. Copy to",
            f"# each machine {certificates.AUTHORITY_FILE} and the two files of its tasks, over a "
            "safe way;",
            f"# for `millrace status` and other clients: {CLIENT}.pem and {CLIENT}.key.",
        ]
        return [t._replace(environment={**t.environment, **keys[t.name]}) for t in tasks], lines
    security = Security.from_environment()
    if security.token or security.uses_tls or security.insecure:
        return list(tasks), []
    if all(is_loopback(host) for host in hosts_of(tasks)):
        return list(tasks), []
    return list(tasks), [
        "# These servers refuse to start unauthenticated: add --tls to create certificates,",
        f"# or set {TOKEN_FILE} on every machine (docs/security.md).",
    ]
