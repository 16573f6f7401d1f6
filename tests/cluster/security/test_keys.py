"""Who has the keys is let in, on both planes; who has not is refused, and told why."""

import datetime
import json
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest

import millrace as tf
from millrace.cli import main
from millrace.core import errors
from millrace.rpc import service_messages
from millrace.rpc.certificates import Authority
from millrace.rpc.security import TLS_CA, Security
from millrace.rpc.service import Connection
from tests.cluster.security.conftest import (
    GOOD_TOKEN,
    SECONDS,
    address,
    is_closed,
    keys,
    run_remotely,
)


@pytest.mark.parametrize("token", ["short", "sixteen characters with spaces", "ä" * 20])
def test_a_token_that_could_be_guessed_or_cannot_be_sent_is_refused(token):
    with pytest.raises(ValueError, match="A token has") as refused:
        Security(token=token)
    assert token not in str(refused.value)


def test_keys_are_not_shown(authority):
    shown = repr(keys(authority)) + repr(Security(token=GOOD_TOKEN))
    assert "PRIVATE" not in shown and GOOD_TOKEN not in shown


# -- Those who have them --------------------------------------------------------------------


@pytest.mark.parametrize("way", ["socket", "grpc"])
@pytest.mark.parametrize("kind", ["tls", "token", "both"])
def test_those_who_have_the_keys_train(make_job, authority, kind, way):
    certified = keys(authority)
    token = GOOD_TOKEN if kind != "tls" else ""
    security = Security(token=token)
    if kind != "token":
        security = Security(certified.authority, certified.certificate, certified.key, token)
    cluster, trainer = make_job(security, way)
    for _ in range(3):
        trainer.step()
    assert run_remotely(cluster, tf.constant(7.0) * 2) == 14
    with tf.device("/job:worker/task:0"):
        large = tf.ones([1000, 1000]) * 3  # many records of TLS's
    with tf.device("/job:ps/task:0"):
        assert run_remotely(cluster, tf.reduce_sum(large)) == 3e6


def test_a_task_that_is_gone_and_back_is_found_behind_its_door(make_cluster, use, authority):
    use(keys(authority))
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    with tf.device("/job:ps/task:0"):
        fetch = tf.Variable(3.0)
    with tf.device("/job:worker/task:0"):
        doubled = fetch * 2
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(fetch.initializer)
        assert session.run(doubled) == 6
        cluster["ps", 0].stop()
        with pytest.raises((errors.UnavailableError, errors.AbortedError)):
            session.run(doubled)
    cluster.start("ps", 0)
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(fetch.initializer)
        assert session.run(doubled) == 6


def test_the_data_plane_speaks_tls_only(make_job, authority):
    cluster, _ = make_job(keys(authority))
    port = cluster["ps", 0].peers._listener.port
    with socket.create_connection(("127.0.0.1", port), SECONDS) as plain:
        plain.sendall(b"t" * 32)
        assert is_closed(plain)
    with socket.create_connection(("127.0.0.1", port), SECONDS) as raw:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.raises(OSError):  # It wants to see a certificate.
            with context.wrap_socket(raw) as stranger:
                stranger.sendall(b"t" * 32)
                assert stranger.recv(1), "closed"
            raise ConnectionError("closed")


def test_a_ticket_is_no_use_to_one_who_does_not_know_the_token(make_job):
    cluster, _ = make_job(Security(token=GOOD_TOKEN))
    peers = cluster["ps", 0].peers
    connection = Connection(address(cluster), Security(token=GOOD_TOKEN))
    greeting = {"task": "/job:x", "address": "x:1", "incarnation": 1, "protocol": "grpc+fast"}
    answer = json.loads(connection.meet(json.dumps(greeting).encode(), SECONDS))
    connection.close()
    with socket.create_connection(("127.0.0.1", answer["fast_port"]), SECONDS) as stranger:
        stranger.sendall(bytes.fromhex(answer["ticket"]))
        assert is_closed(stranger)
    assert not peers.has_channel("x:1")


# -- Those who have not --------------------------------------------------------------------


def _other_authority(authority: Authority) -> Security:
    return keys(Authority())


def _certificate_of_another_authority(authority: Authority) -> Security:
    theirs = keys(Authority())
    return Security(authority.certificate, theirs.certificate, theirs.key)


def _expired(authority: Authority) -> Security:
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    return keys(authority, valid=(now - 2 * hour, now - hour))


def _nothing(authority: Authority) -> Security:
    return Security()


REFUSED_BY_TLS = {
    "does not trust the server": (_other_authority, "certificate that this side does not accept"),
    "is not trusted": (_certificate_of_another_authority, "does not accept this side's"),
    "has an expired certificate": (_expired, "certificate expired"),
    "does not speak TLS": (_nothing, f"set {TLS_CA}"),
}


@pytest.mark.parametrize("who", REFUSED_BY_TLS)
def test_a_client_without_the_right_certificate_is_refused(make_job, authority, use, who):
    make, told = REFUSED_BY_TLS[who]
    cluster, trainer = make_job(keys(authority))
    use(make(authority))
    with pytest.raises(errors.UnauthenticatedError, match=told):
        tf.Session(cluster.target("ps", 0, remote=True))
    trainer.step()


def test_a_server_with_an_expired_certificate_is_not_trusted(authority, use):
    server = tf.train.Server({"a": ["127.0.0.1:0"]}, security=_expired(authority))
    use(keys(authority))
    connection = Connection(server.target.removeprefix("grpc://"))
    try:
        with pytest.raises(errors.UnauthenticatedError, match="has expired"):
            connection.status(SECONDS)
    finally:
        connection.close()
        server.stop()


def test_a_client_with_tls_at_a_server_without_is_told_so(make_job, authority, use):
    cluster, _ = make_job()
    use(keys(authority))
    with pytest.raises(errors.UnauthenticatedError, match="does not speak TLS"):
        tf.Session(cluster.target("ps", 0, remote=True))


@pytest.mark.parametrize("token", ["", GOOD_TOKEN[:-1] + "x", GOOD_TOKEN + "x"])
def test_a_client_without_the_token_is_refused(make_job, use, token):
    cluster, trainer = make_job(Security(token=GOOD_TOKEN))
    use(Security(token=token))
    with pytest.raises(errors.UnauthenticatedError, match="asks for a token") as refused:
        tf.Session(cluster.target("ps", 0, remote=True))
    assert GOOD_TOKEN not in str(refused.value)
    trainer.step()


@pytest.mark.parametrize("call", ["stop", "reset", "status", "meet", "register"])
def test_nothing_is_done_for_one_who_has_no_token(make_job, call):
    cluster, _ = make_job(Security(token=GOOD_TOKEN))
    connection = Connection(address(cluster), Security())
    calls: dict[str, Callable[[], Any]] = {
        "stop": lambda: connection.stop_server(SECONDS),
        "reset": lambda: connection.master().reset(service_messages.ResetRequest(), SECONDS),
        "status": lambda: connection.status(SECONDS),
        "meet": lambda: connection.meet(b"{}", SECONDS),
        "register": lambda: connection.register(b"{}", SECONDS),
    }
    with pytest.raises(errors.UnauthenticatedError):
        calls[call]()
    connection.close()


def test_a_task_of_another_job_is_not_waited_for(make_job, authority):
    """Its certificate is valid, for another job: a session says so instead of waiting."""
    cluster, trainer = make_job(keys(authority))
    here, there = keys(Authority()), address(cluster)
    with tf.Graph().as_default():
        spec = {"a": ["127.0.0.1:0"], "b": [there]}
        server = tf.train.Server(spec, "a", 0, security=here)
        try:
            with pytest.raises(errors.UnauthenticatedError, match=there):
                tf.Session(server.target)
        finally:
            server.stop()
    trainer.step()


# -- Command line --------------------------------------------------------------------------


def test_status_and_stop_take_their_keys_from_flags(make_job, authority, use, tmp_path, capsys):
    cluster, _ = make_job(keys(authority))
    mine = keys(authority)
    use(Security())
    target = f"grpc://{address(cluster)}"
    assert main.main(["status", target]) == 1
    assert "speaks TLS" in capsys.readouterr().err
    assert main.main(["stop", "--only", target]) == 1
    flags = []
    for flag, content in (
        ("--tls-ca", mine.authority),
        ("--tls-certificate", mine.certificate),
        ("--tls-key", mine.key),
    ):
        path = tmp_path / flag.strip("-")
        path.write_bytes(content)
        flags += [flag, str(path)]
    assert main.main(["status", *flags, "--json", target]) == 0
    assert '"sessions"' in capsys.readouterr().out
