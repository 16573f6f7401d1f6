"""Ports that are kept for servers which start later."""

from __future__ import annotations

import socket

import pytest

from millrace.platform.ports import HeldPorts


def test_a_server_gets_the_port_that_is_held_for_it_again_and_again() -> None:
    with HeldPorts(2) as held:
        for port in (*held.ports, *held.ports):
            with socket.create_server(("localhost", port)) as server:
                socket.create_connection(server.getsockname()).close()


def test_a_held_port_is_no_free_port() -> None:
    with HeldPorts(1) as held, socket.socket() as stranger, pytest.raises(OSError):
        stranger.bind(("localhost", held.ports[0]))


def test_nobody_answers_at_a_held_port() -> None:
    with HeldPorts(1) as held, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("localhost", held.ports[0]))


def test_all_ports_differ_and_addresses_name_them() -> None:
    with HeldPorts(20) as held:
        assert len(set(held.ports)) == 20
        assert held.addresses == [f"localhost:{port}" for port in held.ports]


def test_a_server_keeps_its_port_when_nobody_holds_it_any_more() -> None:
    held = HeldPorts(1)
    with socket.create_server(("localhost", held.ports[0])) as server:
        held.close()
        socket.create_connection(server.getsockname()).close()
