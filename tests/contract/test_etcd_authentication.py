"""An etcd with mutual TLS and users, which keeps the lease for those who have the keys."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.core import errors
from millrace.protocol.election import Record
from millrace.training.election.access import Access
from millrace.training.election.backends import open_register
from millrace.training.election.etcd import EtcdRegister
from millrace.training.election.register import Address
from tests.contract.conftest import patiently

RECORD = Record("worker 0", 1, 0, 3.0)


def opened(etcd: Any, path: str = "/jobs/chief", **others: Any) -> EtcdRegister:
    variables = etcd.variables(**others)
    access = Access.from_environment("etcd", True, [etcd.address], variables)
    return EtcdRegister(etcd.address, path, access)


@pytest.mark.parametrize("kind", ["etcd_with_certificates", "etcd_with_users"])
def test_who_has_the_keys_reads_and_writes(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd = request.getfixturevalue(kind)
    for name, value in etcd.variables().items():
        monkeypatch.setenv(name, value)
    register = open_register(Address.parse(f"etcds://{etcd.address}/jobs/keys"), "")
    patiently(lambda: register.write(RECORD, register.read().version))
    assert patiently(register.read).record == RECORD


# -- Users -------------------------------------------------------------------------------------


def test_a_token_that_etcd_does_not_know_any_more_is_renewed(etcd_with_users: Any) -> None:
    register = opened(etcd_with_users)
    patiently(register.read)
    before, register._token = register._token, "ended.1"
    patiently(register.read)
    assert register._token not in ("ended.1", before)


@pytest.mark.parametrize(
    "others, message",
    [
        ({"PASSWORD_FILE": None, "PASSWORD": "wrong"}, "does not know user 'trainer'"),
        ({"USER": "nobody"}, "does not know user 'nobody'"),
        ({"CA": None}, "do not accept each other's TLS"),
    ],
)
def test_wrong_keys_are_refused_at_once(etcd_with_users: Any, others: Any, message: str) -> None:
    with pytest.raises(errors.UnauthenticatedError, match=message) as info:
        patiently(opened(etcd_with_users, **others).read)
    assert etcd_with_users.PASSWORD not in str(info.value)


def test_a_path_that_the_user_may_not_touch_is_refused(etcd_with_users: Any) -> None:
    with pytest.raises(errors.FailedPreconditionError, match="permission denied"):
        patiently(opened(etcd_with_users, "/others/chief").read)
    with pytest.raises(errors.FailedPreconditionError, match="user name is empty"):
        patiently(opened(etcd_with_users, USER=None, PASSWORD_FILE=None).read)


# -- TLS ---------------------------------------------------------------------------------------

#: etcd closes a connection that is not as it should be, and TLS says why only to who still listens.
REFUSED = (errors.UnauthenticatedError, errors.UnavailableError)


def test_without_a_certificate_or_with_another_authoritys_nobody_comes_in(
    etcd_with_certificates: Any,
) -> None:
    for folder in (None, "others"):
        pair = (("CERTIFICATE", "client.pem"), ("KEY", "client.key"))
        others = {n: folder and etcd_with_certificates.key(file, folder) for n, file in pair}
        with pytest.raises(REFUSED, match="MILLRACE_ETCD_CERTIFICATE"):
            opened(etcd_with_certificates, **others).read()


def test_tls_on_one_side_only_is_told(etcd: Any, etcd_with_users: Any) -> None:
    with pytest.raises(errors.UnavailableError, match="etcds:// just where it has TLS"):
        EtcdRegister(etcd_with_users.address, "/jobs/chief", Access()).read()
    variables = etcd_with_users.variables()
    access = Access.from_environment("etcd", True, [etcd.address], variables)
    with pytest.raises(errors.UnavailableError, match="etcds:// just where it has TLS"):
        EtcdRegister(etcd.address, "/jobs/chief", access).read()


# -- What the variables say ----------------------------------------------------------------------


@pytest.mark.parametrize("service", ["etcd", "zookeeper"])
@pytest.mark.parametrize(
    "keys, message",
    [
        ({"USER": "trainer"}, "a name and a password"),
        ({"CERTIFICATE": "a.pem"}, "has two files"),
        ({"CA": "/nowhere.pem"}, "cannot be used"),
        ({"USER": "a", "PASSWORD_FILE": "/nowhere"}, "cannot be read"),
    ],
)
def test_keys_that_are_not_whole_are_refused(
    service: str, keys: dict[str, str], message: str
) -> None:
    variables = {f"MILLRACE_{service.upper()}_{name}": value for name, value in keys.items()}
    with pytest.raises(ValueError, match=message) as info:
        Access.from_environment(service, True, ["a:2379"], variables)
    assert f"MILLRACE_{service.upper()}_" in str(info.value)


@pytest.mark.parametrize("service", ["etcd", "zookeeper"])
def test_a_password_goes_to_another_machine_by_tls_only(service: str) -> None:
    name = f"MILLRACE_{service.upper()}"
    secret = {f"{name}_USER": "a", f"{name}_PASSWORD": "secret word"}
    with pytest.raises(ValueError, match=f"without TLS: use {service}s://"):
        Access.from_environment(service, False, ["node1:2379"], secret)
    local = Access.from_environment(service, False, ["localhost:2379"], secret)
    assert local.password and "secret" not in repr(local)
