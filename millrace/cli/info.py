"""`millrace info`: what a report of a problem should say about the machine."""

import argparse
import platform
from importlib import metadata

from millrace.client.session import Session
from millrace.graph.graph import Graph
from millrace.platform.version import MILLRACE

SUMMARY = "print versions and the devices that operations can run on"

# What a wrong answer or a slow step may depend on.
_PACKAGES = ("jax", "jaxlib", "numpy", "protobuf", "grpcio", "tensorboard")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing."""


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def run(arguments: argparse.Namespace) -> int:
    """Prints a name and a value a line."""
    lines = [("millrace", MILLRACE), ("python", platform.python_version())]
    lines += [(package, _version_of(package)) for package in _PACKAGES]
    lines += [("platform", platform.platform())]
    with Session(graph=Graph()) as session:
        lines += [("device", device.name) for device in session.list_devices()]
    for name, value in lines:
        print(f"{name:<12} {value}")
    return 0
