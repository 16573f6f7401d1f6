"""Why an address cannot be reached, in a sentence of ours: the name, the port, or the way to it."""

from __future__ import annotations

import errno
import socket


def why_unreachable(address: str, seconds: float = 2.0) -> str | None:
    """What is wrong with ``host:port``, None if something listens there.

    Args:
      address: The address.
      seconds: How long an answer is waited for.
    """
    host, _, port = address.rpartition(":")
    name = host.strip("[]")
    try:
        places = socket.getaddrinfo(name, int(port), type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return f"the name {name} does not resolve here"
    except (OverflowError, ValueError):
        return f"{port!r} is no port"
    found = ""
    for family, kind, protocol, _, place in places:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.settimeout(seconds)
                probe.connect(place)
                return None
        except ConnectionRefusedError:
            found = f"nothing listens at {address} (connection refused)"
        except TimeoutError:
            found = f"{address} gave no answer in {seconds:.0f} s (a firewall, or a machine off?)"
        except OSError as error:
            where = "no way leads to" if error.errno == errno.EHOSTUNREACH else "cannot reach"
            found = f"{where} {address}: {error.strerror or error}"
    return found or f"the name {name} has no address"
