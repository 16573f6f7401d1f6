"""Why an address cannot be reached."""

from __future__ import annotations

import socket

from millrace.platform.ports import HeldPorts
from millrace.platform.reachability import why_unreachable


def test_a_name_that_does_not_resolve_is_told_apart_from_a_port_that_is_closed() -> None:
    assert why_unreachable("host.invalid:1") == "the name host.invalid does not resolve here"
    with HeldPorts(1, "127.0.0.1") as held:
        (address,) = held.addresses
        assert why_unreachable(address) == f"nothing listens at {address} (connection refused)"


def test_nothing_is_said_about_what_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert why_unreachable(f"127.0.0.1:{server.getsockname()[1]}") is None


def test_what_is_no_port_is_told() -> None:
    assert why_unreachable("localhost:99999") is not None
