"""How this process gets into an etcd that has a door: TLS, a client's certificate, a user.

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

CA = "MILLRACE_ETCD_CA"
CERTIFICATE = "MILLRACE_ETCD_CERTIFICATE"
KEY = "MILLRACE_ETCD_KEY"
USER = "MILLRACE_ETCD_USER"
PASSWORD = "MILLRACE_ETCD_PASSWORD"
PASSWORD_FILE = "MILLRACE_ETCD_PASSWORD_FILE"


@dataclass(frozen=True)
class EtcdAccess:
    """The keys to an etcd.

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
        cls, uses_tls: bool, hosts: list[str], environment: Mapping[str, str] | None = None
    ) -> EtcdAccess:
        """What the variables say.

        Args:
          uses_tls: Whether the address is that of an etcd with TLS.
          hosts: Where it is, as ``host:port``.
          environment: The variables.

        Raises:
          ValueError: They name what cannot be read, do not fit, or would show a password.
        """
        found = os.environ if environment is None else environment
        user = found.get(USER, "")
        password = found.get(PASSWORD, "")
        if found.get(PASSWORD_FILE):
            password = _text_of(found[PASSWORD_FILE], PASSWORD_FILE)
        if bool(user) != bool(password):
            raise ValueError(
                f"A user of etcd has a name and a password: set {USER}, and {PASSWORD_FILE} (or "
                f"{PASSWORD}); or neither."
            )
        local = all(is_loopback(host.rpartition(":")[0]) for host in hosts)
        if password and not uses_tls and not local:
            raise ValueError(
                "A password is not sent to another machine without TLS: use etcds://host:port/path "
                f"for the election, or unset {USER}."
            )
        return cls(_context(found) if uses_tls else None, user, password)


def _context(environment: Mapping[str, str]) -> ssl.SSLContext:
    """TLS with the system's authorities, or the one that is named; and a certificate, if given."""
    certificate, key = environment.get(CERTIFICATE), environment.get(KEY)
    if bool(certificate) != bool(key):
        raise ValueError(f"A client's certificate for etcd has two files: {CERTIFICATE} and {KEY}.")
    try:
        context = ssl.create_default_context(cafile=environment.get(CA) or None)
        if certificate and key:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(
            f"The files that {CA}, {CERTIFICATE} and {KEY} name cannot be used: {error}"
        ) from None
    return context


def _text_of(path: str, variable: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ValueError(f"The file that {variable} names cannot be read: {error}") from None
