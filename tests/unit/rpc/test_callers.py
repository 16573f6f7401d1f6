"""Clients of one machine may have only so many calls under way."""

from __future__ import annotations

from typing import NoReturn

import grpc
import pytest

from millrace.platform import limits
from millrace.rpc.callers import Callers, host_of


class Context:
    """gRPC's context of a call, as far as it is asked."""

    def __init__(self, peer: str) -> None:
        self._peer = peer

    def peer(self) -> str:
        return self._peer

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise RuntimeError(code, details)


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.1:5000", "10.0.0.1"),
        ("ipv6:%5B::1%5D:5000", "::1"),
        ("ipv6:[fe80::1%eth0]:5000", "fe80::1"),
        ("unix:/a/path", "unix:/a/path"),
    ],
)
def test_a_peer_names_its_machine(peer: str, host: str) -> None:
    assert host_of(peer) == host


def test_calls_within_calls_are_refused_past_the_limit_and_then_let_in_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = 5
    monkeypatch.setenv(limits.CALLS_PER_CLIENT.variable, str(most))
    callers = Callers()
    depth = 0

    def nest(request: bytes, context: Context) -> bytes:
        nonlocal depth
        depth += 1
        if depth == most:  # Another machine is let in, this one is not.
            assert callers.counted(lambda r, c: b"in")(b"", Context("ipv4:10.0.0.2:1")) == b"in"
        return counted(request, context)

    counted = callers.counted(nest)
    with pytest.raises(RuntimeError) as refused:
        counted(b"", Context("ipv4:10.0.0.1:1"))
    assert refused.value.args[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert depth == most
    assert callers.counted(lambda r, c: b"in")(b"", Context("ipv4:10.0.0.1:9")) == b"in"
