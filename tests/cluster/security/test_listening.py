"""Where a server listens, and what it asks for before it lets others reach it."""

import json
import socket

import pytest

import millrace as tf
from millrace.cli import main
from millrace.core import errors
from millrace.rpc.security import INSECURE, TLS_CA, TLS_CERTIFICATE, TLS_KEY, Security, is_loopback
from tests.cluster.security.conftest import (
    GOOD_TOKEN,
    keys,
)


@pytest.mark.parametrize("protocol", ["grpc", "grpc+fast"])
def test_a_server_listens_at_its_own_address_only(protocol):
    server = tf.train.Server({"a": ["127.0.0.1:0"]}, protocol=protocol)
    try:
        ports = [int(server.target.rpartition(":")[2])]
        listener = server.peers._listener
        ports += [listener.port] if listener is not None else []
        for port in ports:
            socket.create_connection(("127.0.0.1", port), 5).close()
            with pytest.raises(OSError):  # who listened everywhere would answer here too
                socket.create_connection(("127.0.0.2", port), 5).close()
    finally:
        server.stop()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "[::1]"])
def test_loopback_needs_no_door(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "", "10.1.2.3", "no.such.host.invalid"])
def test_other_addresses_do(host):
    assert not is_loopback(host)


def test_a_server_that_others_reach_refuses_to_start_and_says_how_to():
    with pytest.raises(errors.FailedPreconditionError) as refused:
        tf.train.Server({"a": ["0.0.0.0:0"]})
    for word in (TLS_CA, TLS_CERTIFICATE, TLS_KEY, "MILLRACE_TOKEN_FILE", INSECURE, "0.0.0.0:0"):
        assert word in str(refused.value)


def test_the_command_line_refuses_too(capsys):
    cluster = json.dumps({"a": ["0.0.0.0:0"]})
    assert main.main(["server", "--cluster", cluster]) == 1
    assert "refuses to start unauthenticated" in capsys.readouterr().err


def test_it_starts_with_certificates_a_token_or_an_explicit_word(authority):
    for security in (keys(authority), Security(token=GOOD_TOKEN), Security(insecure=True)):
        tf.train.Server({"a": ["0.0.0.0:0"]}, security=security).stop()


def test_half_of_the_keys_is_refused(monkeypatch):
    monkeypatch.setenv(TLS_CA, __file__)
    with pytest.raises(ValueError, match="three files"):
        tf.train.Server({"a": ["localhost:0"]})
