"""What a server asks of remote clients."""

import pytest

from millrace.server.admission.remote_client import machine_of


@pytest.mark.parametrize(
    ("client", "machine"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("worker0:2222", "worker0:2222"),
        ("ipv4:127.0.0.1:5000 at worker0:2222", "127.0.0.1 at worker0:2222"),
        ("ipv6:%5B::1%5D:5000 at worker0:2222", "::1 at worker0:2222"),
    ],
)
def test_a_client_is_counted_with_the_others_of_its_machine(client, machine):
    assert machine_of(client) == machine
