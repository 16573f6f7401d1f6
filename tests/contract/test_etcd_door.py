"""An etcd with mutual TLS and users, which keeps the lease for those who have the keys."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.core import errors
from millrace.protocol.election import Record
from millrace.training.election.backends import open_register
from millrace.training.election.etcd import EtcdRegister
from millrace.training.election.etcd_access import EtcdAccess
from millrace.training.election.register import Address
from tests.contract.conftest import patiently

RECORD = Record("worker 0", 1, 0, 3.0)


def opened(etcd: Any, path: str = "/jobs/chief", **others: Any) -> EtcdRegister:
    variables = etcd.variables(**others)
    access = EtcdAccess.from_environment(True, [etcd.address], variables)
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
        EtcdRegister(etcd_with_users.address, "/jobs/chief", EtcdAccess()).read()
    variables = etcd_with_users.variables()
    access = EtcdAccess.from_environment(True, [etcd.address], variables)
    with pytest.raises(errors.UnavailableError, match="etcds:// just where it has TLS"):
        EtcdRegister(etcd.address, "/jobs/chief", access).read()


# -- What the variables say ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "variables, message",
    [
        ({"MILLRACE_ETCD_USER": "trainer"}, "a name and a password"),
        ({"MILLRACE_ETCD_CERTIFICATE": "a.pem"}, "has two files"),
        ({"MILLRACE_ETCD_CA": "/nowhere.pem"}, "cannot be used"),
        ({"MILLRACE_ETCD_USER": "a", "MILLRACE_ETCD_PASSWORD_FILE": "/nowhere"}, "cannot be read"),
    ],
)
def test_keys_that_are_not_whole_are_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EtcdAccess.from_environment(True, ["a:2379"], variables)


def test_a_password_goes_to_another_machine_by_tls_only() -> None:
    secret = {"MILLRACE_ETCD_USER": "a", "MILLRACE_ETCD_PASSWORD": "secret word"}
    with pytest.raises(ValueError, match="not sent to another machine without TLS"):
        EtcdAccess.from_environment(False, ["node1:2379"], secret)
    assert "secret" not in repr(EtcdAccess.from_environment(False, ["localhost:2379"], secret))
