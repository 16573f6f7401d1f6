"""Why a server that is there does not let us in: found out by knocking again, and listening.

gRPC says no more than "Socket closed" when one side speaks TLS and the other does not, or when a
server does not accept a certificate. It would then be waited for as if it were down.
"""

from __future__ import annotations

import datetime
import socket
import ssl

from millrace.platform import lazy_import
from millrace.rpc.security import TLS_CA, TLS_CERTIFICATE, TLS_KEY, Security

x509 = lazy_import.module("cryptography.x509")

_SECONDS = 1.0


def explain(address: str, security: Security) -> str | None:
    """What is wrong between this process's credentials and a server's, or None if nothing shows."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return None
    host = host.strip("[]")
    # Twice: a server that ends at this moment is no reason to give up for good.
    first = _knock(host, int(port), security)
    if first is None or first != _knock(host, int(port), security):
        return None
    return f"The server at {address} {first}"


def _knock(host: str, port: int, security: Security) -> str | None:
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as raw:
            raw.settimeout(_SECONDS)
            speak = _with_tls if security.uses_tls else _without_tls
            return speak(raw, host, security)
    except (OSError, ValueError):
        return None


def _with_tls(raw: socket.socket, host: str, security: Security) -> str | None:
    context = security.client_context()
    assert context is not None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    try:
        with context.wrap_socket(raw, server_hostname=host) as tls:
            # It judges our certificate after our side of the handshake is done, and may say
            # nothing when it does not like it.
            try:
                return None if tls.recv(1) else _own_fault(security)
            except ConnectionError:
                return _own_fault(security)
    except ssl.SSLCertVerificationError as error:
        return (
            f"shows a certificate that this side does not accept: {error.verify_message}. It must "
            f"be valid now, be signed by the authority in {TLS_CA}, and name {host!r}."
        )
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "ALERT" in reason:
            return _own_fault(security)
        if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
            return (
                f"does not speak TLS, but this side is told to ({TLS_CA}, {TLS_CERTIFICATE}, "
                f"{TLS_KEY}): start it with certificates too, or unset these variables here."
            )
    return None


def _own_fault(security: Security) -> str:
    certificate = x509.load_pem_x509_certificate(security.certificate)
    now = datetime.datetime.now(datetime.UTC)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        reason = f"the certificate expired at {end:%Y-%m-%d %H:%M} UTC"
    elif now < start:
        reason = f"the certificate is valid from {start:%Y-%m-%d %H:%M} UTC on"
    else:
        reason = f"it was signed by {certificate.issuer.rfc4514_string()!r}"
    return (
        f"does not accept this side's certificate, perhaps because {reason}. The file that "
        f"{TLS_CERTIFICATE} names must be valid now and be signed by an authority of the server's."
    )


def _without_tls(raw: socket.socket, host: str, security: Security) -> str | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # Only its language matters; nothing is sent.
    context.set_alpn_protocols(["h2"])
    try:
        with context.wrap_socket(raw, server_hostname=host):
            pass
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            return None
    return (
        f"speaks TLS, and this side does not: set {TLS_CA}, {TLS_CERTIFICATE} and {TLS_KEY} to "
        "PEM files that its authority signed."
    )
