"""How this process authenticates with a service: TLS, a client's certificate, a user.

All of it comes from the environment, so that neither addresses nor command lines hold secrets. A
password goes over TLS, or to this machine. Nothing here is ever shown in errors or logs.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from millrace.rpc.security import is_loopback


def variable(service: str, name: str) -> str:
    """The variable of a service: ``MILLRACE_ETCD_CA`` for ``etcd`` and ``CA``."""
    return f"MILLRACE_{service.upper()}_{name}"


@dataclass(frozen=True)
class Access:
    """The keys to a service.

    Attributes:
      context: The settings of TLS; None without.
      user: Whom to be, or an empty text.
      password: The user's.
    """

    context: ssl.SSLContext | None = field(default=None, repr=False)
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def from_environment(
        cls,
        service: str,
        uses_tls: bool,
        hosts: list[str],
        environment: Mapping[str, str] | None = None,
    ) -> Access:
        """What the variables say.

        Args:
          service: Which service, as its addresses begin without TLS: ``etcd``, ``zookeeper``.
          uses_tls: Whether the address is that of one with TLS.
          hosts: Where it is, as ``host:port``.
          environment: The variables.

        Raises:
          ValueError: They name what cannot be read, do not fit, or would show a password.
        """
        found = os.environ if environment is None else environment
        user_name, file_name = variable(service, "USER"), variable(service, "PASSWORD_FILE")
        user = found.get(user_name, "")
        password = found.get(variable(service, "PASSWORD"), "")
        if found.get(file_name):
            password = _text_of(found[file_name], file_name)
        if bool(user) != bool(password):
            raise ValueError(
                f"A user of {service} has a name and a password: set {user_name}, and {file_name} "
                f"(or {variable(service, 'PASSWORD')}); or neither."
            )
        local = all(is_loopback(host.rpartition(":")[0]) for host in hosts)
        if password and not uses_tls and not local:
            raise ValueError(
                f"A password is not sent to another machine without TLS: use {service}s://host:port"
                f"/path for the election, or unset {user_name}."
            )
        return cls(_context(service, found) if uses_tls else None, user, password)


def _context(service: str, environment: Mapping[str, str]) -> ssl.SSLContext:
    """TLS with the system's authorities, or the one that is named; and a certificate, if given."""
    names = [variable(service, name) for name in ("CA", "CERTIFICATE", "KEY")]
    authority, certificate, key = (environment.get(name) for name in names)
    if bool(certificate) != bool(key):
        raise ValueError(
            f"A client's certificate for {service} has two files: {names[1]} and {names[2]}."
        )
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate and key:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(
            f"The files that {', '.join(names[:2])} and {names[2]} name cannot be used: {error}"
        ) from None
    return context


def is_about_keys(error: ssl.SSLError) -> bool:
    """Whether an error of TLS is about who the sides are, and will not pass by itself."""
    reason = str(getattr(error, "reason", "") or "")
    return isinstance(error, ssl.SSLCertVerificationError) or "CERT" in reason


def _text_of(path: str, name: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ValueError(f"The file that {name} names cannot be read: {error}") from None
