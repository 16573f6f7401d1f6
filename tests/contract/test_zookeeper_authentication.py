"""A ZooKeeper with mutual TLS and users, which keeps the lease for those who have the keys."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millrace.core import errors
from millrace.protocol.election import Record
from millrace.training.election.access import Access
from millrace.training.election.backends import open_register
from millrace.training.election.register import Address
from millrace.training.election.zookeeper import ZooKeeperRegister
from tests.contract.conftest import patiently

RECORD = Record("worker 0", 1, 0, 3.0)
#: TLS says why a connection is refused only to who still listens.
REFUSED = (errors.UnauthenticatedError, errors.UnavailableError)
_paths = (f"/secured/{number}/chief" for number in itertools.count())


@pytest.fixture
def opened(zookeeper_with_a_door: Any) -> Iterator[Callable[..., ZooKeeperRegister]]:
    """Opens registers with the keys of the environment, of which some may be others."""
    made: list[ZooKeeperRegister] = []

    def open_one(path: str, **others: str | None) -> ZooKeeperRegister:
        address = zookeeper_with_a_door.address
        variables = zookeeper_with_a_door.variables(**others)
        access = Access.from_environment("zookeeper", True, [address], variables)
        made.append(ZooKeeperRegister(address, path, access))
        return made[-1]

    yield open_one
    for register in made:
        register.close()


def test_who_has_the_keys_reads_and_writes(
    zookeeper_with_a_door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zookeeper_with_a_door.variables().items():
        monkeypatch.setenv(name, value)
    address = f"zookeepers://{zookeeper_with_a_door.address}{next(_paths)}"
    register = open_register(Address.parse(address), "")
    try:
        patiently(lambda: register.write(RECORD, register.read().version))
        assert patiently(register.read).record == RECORD
    finally:
        register.close()


def test_what_a_user_has_written_is_there_for_him_when_the_server_is_back(
    zookeeper_with_a_door: Any, opened: Any
) -> None:
    register = opened(next(_paths))
    patiently(lambda: register.write(RECORD, register.read().version))
    zookeeper_with_a_door.server.kill()
    zookeeper_with_a_door.start()
    assert patiently(register.read).record == RECORD


@pytest.mark.parametrize(
    "others",
    [
        {"PASSWORD_FILE": None, "PASSWORD": "a wrong one"},
        {"USER": "nobody"},
        {"USER": None, "PASSWORD_FILE": None},
    ],
    ids=["password", "user", "none"],
)
def test_nobody_but_its_user_reads_or_writes_a_lease(
    zookeeper_with_a_door: Any, opened: Any, others: dict[str, str | None]
) -> None:
    path = next(_paths)
    register = opened(path)
    patiently(lambda: register.write(RECORD, register.read().version))
    version = patiently(register.read).version
    other = opened(path, **others)
    for call in (other.read, lambda: other.write(RECORD, version)):
        with pytest.raises(errors.UnauthenticatedError, match="MILLRACE_ZOOKEEPER_USER") as info:
            patiently(call)
        assert zookeeper_with_a_door.PASSWORD not in str(info.value)
        assert "a wrong one" not in str(info.value)
    # Nor beside it, where the user's own folder is.
    beside = opened(path + "-other", **others)
    with pytest.raises(errors.UnauthenticatedError):
        patiently(lambda: beside.write(RECORD, -1))
    assert patiently(register.read).record == RECORD


# -- TLS ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", [None, "others"])
def test_without_a_certificate_or_with_another_authoritys_nobody_comes_in(
    zookeeper_with_a_door: Any, opened: Any, folder: str | None
) -> None:
    pair = (("CERTIFICATE", "client.pem"), ("KEY", "client.key"))
    others = {n: folder and zookeeper_with_a_door.key(file, folder) for n, file in pair}
    with pytest.raises(REFUSED, match="MILLRACE_ZOOKEEPER_CERTIFICATE"):
        opened(next(_paths), **others).read()


def test_a_server_of_another_authority_is_not_believed(opened: Any) -> None:
    with pytest.raises(errors.UnauthenticatedError, match="do not accept each other's TLS"):
        patiently(opened(next(_paths), CA=None).read)


def test_a_server_must_have_the_name_by_which_it_is_called(zookeeper_with_a_door: Any) -> None:
    port = zookeeper_with_a_door.address.rpartition(":")[2]
    variables = zookeeper_with_a_door.variables()
    access = Access.from_environment("zookeeper", True, [f"127.1:{port}"], variables)
    # The same machine, by a name that is not in the certificate.
    register = ZooKeeperRegister(f"127.1:{port}", next(_paths), access)
    try:
        with pytest.raises(errors.UnauthenticatedError, match="mismatch"):
            patiently(register.read)
    finally:
        register.close()


def test_tls_on_one_side_only_is_told(
    zookeeper: Any, zookeeper_with_a_door: Any, opened: Any
) -> None:
    plain = ZooKeeperRegister(zookeeper_with_a_door.address, next(_paths), Access())
    variables = zookeeper_with_a_door.variables()
    access = Access.from_environment("zookeeper", True, [zookeeper.address], variables)
    secure = ZooKeeperRegister(zookeeper.address, next(_paths), access)
    for register in (plain, secure):
        try:
            with pytest.raises(errors.UnavailableError, match="zookeepers:// just where"):
                register.read()
        finally:
            register.close()
