"""Opens the register that an address names."""

from __future__ import annotations

import importlib
from typing import Any

from millrace.training.election.access import Access
from millrace.training.election.builtin import BuiltinRegister
from millrace.training.election.etcd import EtcdRegister
from millrace.training.election.register import Address, Register


def open_register(address: Address, master: str) -> Register:
    """The register at an address.

    Args:
      address: Where.
      master: The session's target, whose cluster keeps a built-in lease.

    Raises:
      ValueError: The keys to etcd or ZooKeeper cannot be used.
      ImportError: The back end needs a package that is not installed; says which.
    """
    if address.scheme == "builtin":
        return BuiltinRegister(master, address.path)
    service = address.scheme.removesuffix("s")
    access = Access.from_environment(service, address.scheme != service, address.hosts.split(","))
    if service == "etcd":
        return EtcdRegister(address.hosts, address.path, access)
    try:
        # By name: kazoo is installed only where it is used.
        back_end: Any = importlib.import_module("millrace.training.election.zookeeper")
    except ImportError as error:
        raise ImportError(
            "An election in ZooKeeper needs the package kazoo: pip install kazoo"
        ) from error
    register: Register = back_end.ZooKeeperRegister(address.hosts, address.path, access)
    return register
