"""Authentication: who may speak with a server, and how this process shows that it may.

There are two ways. Mutual TLS: both sides show a certificate of one authority, on the gRPC port
and on the data plane alike. A shared token, for where TLS ends elsewhere (a proxy, a mesh): every
call carries it, and the data plane's handshake proves that it is known. Without either, a server
listens on loopback only, unless somebody says in so many words that it may be open.

Servers, clients and command-line tools take the same settings from the environment. Keys and
tokens are never shown: not in `repr`, not in errors, not in logs.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from millrace.core import errors

TLS_CA = "MILLRACE_TLS_CA"
TLS_CERTIFICATE = "MILLRACE_TLS_CERTIFICATE"
TLS_KEY = "MILLRACE_TLS_KEY"
TOKEN = "MILLRACE_TOKEN"
TOKEN_FILE = "MILLRACE_TOKEN_FILE"
INSECURE = "MILLRACE_INSECURE"
#: What a shorter token is refused for: it could be guessed.
MIN_TOKEN_CHARACTERS = 16
_AUTHORIZATION = "authorization"
_HOW = (
    f"Give it certificates ({TLS_CA}, {TLS_CERTIFICATE} and {TLS_KEY} name PEM files; "
    f"`millrace certificates` makes them), or a token ({TOKEN_FILE}); or, if the network "
    f"itself is protected, set {INSECURE}=1. See docs/security.md."
)


@dataclass(frozen=True)
class Security:
    """The keys that a process has; a server asks for the same.

    Attributes:
      authority: The certificates (PEM) of which one must have signed the other side's.
      certificate: This side's certificate (PEM), with what leads to the authority.
      key: Its private key (PEM).
      token: The shared token, or an empty text.
      insecure: Whether a server that other machines reach may go without either.
    """

    authority: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    insecure: bool = False

    def __post_init__(self) -> None:
        parts = (self.authority, self.certificate, self.key)
        if any(parts) and not all(parts):
            raise ValueError(
                "TLS needs three files: the authority's certificate, this task's certificate and "
                f"its key ({TLS_CA}, {TLS_CERTIFICATE}, {TLS_KEY}); not all of them were given."
            )
        if self.token and (
            len(self.token) < MIN_TOKEN_CHARACTERS
            or not all(33 <= ord(character) < 127 for character in self.token)
        ):
            raise ValueError(
                f"A token has at least {MIN_TOKEN_CHARACTERS} characters, all of them visible "
                "ASCII: `python -c 'import secrets; print(secrets.token_urlsafe(32))'` makes one."
            )

    @classmethod
    def from_files(
        cls,
        authority: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        insecure: bool = False,
    ) -> Security:
        """Security from PEM files and a token, or a file that holds the token.

        Raises:
          ValueError: A file cannot be read, or something is missing.
        """
        if token_file:
            token = _read(token_file, TOKEN_FILE).decode(errors="replace").strip()
            if not token:
                raise ValueError(f"The file of the token, {os.fspath(token_file)!r}, is empty.")
        return cls(
            _read(authority, TLS_CA),
            _read(certificate, TLS_CERTIFICATE),
            _read(key, TLS_KEY),
            token or "",
            insecure,
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Security:
        """What the environment variables say.

        Raises:
          ValueError: They name what cannot be read, or not all that is needed.
        """
        found = os.environ if environment is None else environment
        return cls.from_files(
            found.get(TLS_CA),
            found.get(TLS_CERTIFICATE),
            found.get(TLS_KEY),
            found.get(TOKEN),
            found.get(TOKEN_FILE),
            found.get(INSECURE, "").lower() in ("1", "true", "yes"),
        )

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted and both sides show certificates."""
        return bool(self.key)

    # -- gRPC ------------------------------------------------------------------------------

    def server_credentials(self) -> grpc.ServerCredentials:
        """gRPC's credentials of a server, or None without TLS."""
        if not self.uses_tls:
            return None
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.authority,
            require_client_auth=True,
        )

    def channel(self, address: str, options: Sequence[tuple[str, int | str]]) -> grpc.Channel:
        """A gRPC channel to a server."""
        if self.uses_tls:
            credentials = grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)
            made = grpc.secure_channel(address, credentials, options=options)
        else:
            made = grpc.insecure_channel(address, options=options)
        return grpc.intercept_channel(made, _ShowToken(self.token)) if self.token else made

    def interceptors(self) -> list[grpc.ServerInterceptor]:
        """What looks at every call before a server serves it."""
        return [_AskForToken(self.token)] if self.token else []

    # -- The data plane --------------------------------------------------------------------

    def server_context(self) -> ssl.SSLContext | None:
        """The TLS settings of the data plane's listening side, or None without TLS."""
        return self._context(ssl.PROTOCOL_TLS_SERVER) if self.uses_tls else None

    def client_context(self) -> ssl.SSLContext | None:
        """The TLS settings of the dialing side, or None without TLS."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT) if self.uses_tls else None

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            # Nobody resumes a session, and a ticket for that would look like a message: the socket
            # can be read, and nothing comes.
            context.num_tickets = 0
        try:
            context.load_verify_locations(cadata=self.authority.decode("ascii"))
            with _short_lived_file(self.certificate + b"\n" + self.key) as path:
                context.load_cert_chain(path)
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(
                f"The files that {TLS_CA}, {TLS_CERTIFICATE} and {TLS_KEY} name are not an "
                f"authority, a certificate and its key in PEM: {error}"
            ) from None
        return context

    def proof(self, ticket: bytes) -> bytes:
        """What a dialing task shows for a ticket: that it has it, and that it knows the token."""
        return hmac.digest(self.token.encode(), ticket, "sha256") if self.token else ticket

    def place_of(self, proof: bytes) -> bytes:
        """Under what a ticket is kept: how long the look for it takes tells nothing about it."""
        return hashlib.sha256(proof).digest()


def memory_files_are_possible() -> bool:
    """Whether this system has files that are only in memory, with paths."""
    return hasattr(os, "memfd_create") and os.path.isdir(f"/proc/{os.getpid()}/fd")


def memory_file(content: bytes) -> int:
    """The descriptor of a file in memory that only this user can read; to be closed.

    It has the path ``/proc/PID/fd/DESCRIPTOR`` as long as it is open in this process.
    """
    descriptor = os.memfd_create("millrace")
    os.fchmod(descriptor, 0o400)
    os.write(descriptor, content)
    return descriptor


@contextlib.contextmanager
def _short_lived_file(content: bytes) -> Iterator[str]:
    """A path for a secret: Python takes keys from files only. Nobody else can read it."""
    if memory_files_are_possible():
        descriptor = memory_file(content)
        try:
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="millrace-", suffix=".pem") as file:
        file.write(content)
        file.flush()
        yield file.name


def _read(path: str | os.PathLike[str] | None, variable: str) -> bytes:
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(
            f"{os.fspath(path)!r} (see {variable}) cannot be read: {error.strerror}"
        ) from None


class _AskForToken(grpc.ServerInterceptor):  # type: ignore[misc]
    """Refuses calls that do not carry the token, before anything of them is read."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

        def refuse(requests: object, context: grpc.ServicerContext) -> None:
            context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "The server asks for a token, and the call had none or another: set "
                f"{TOKEN_FILE} (or {TOKEN}) as for the server.",
            )

        # Not as a call with one request: that would be waited for, in a thread.
        self._refusal = grpc.stream_stream_rpc_method_handler(refuse)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler | None],
        call: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        """gRPC asks who shall serve a call."""
        shown = b""
        for name, value in call.invocation_metadata or ():
            if name == _AUTHORIZATION:
                shown = value.encode() if isinstance(value, str) else value
        if not hmac.compare_digest(shown, self._expected):
            return self._refusal
        return continuation(call)


class _CallDetails(grpc.ClientCallDetails):  # type: ignore[misc]
    """What is asked, with more metadata."""

    def __init__(
        self, call: grpc.ClientCallDetails, metadata: Sequence[tuple[str, str | bytes]]
    ) -> None:
        self.method = call.method
        self.timeout = call.timeout
        self.metadata = metadata
        self.credentials = call.credentials
        self.wait_for_ready = call.wait_for_ready
        self.compression = call.compression


class _ShowToken(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):  # type: ignore[misc]
    """Adds the token to every call."""

    def __init__(self, token: str) -> None:
        self._entry = (_AUTHORIZATION, f"Bearer {token}")

    def intercept_unary_unary(
        self, continuation: Callable[..., grpc.Call], call: grpc.ClientCallDetails, request: object
    ) -> grpc.Call:
        """A call with one request."""
        return continuation(self._marked(call), request)

    def intercept_stream_stream(
        self, continuation: Callable[..., grpc.Call], call: grpc.ClientCallDetails, requests: object
    ) -> grpc.Call:
        """A stream."""
        return continuation(self._marked(call), requests)

    def _marked(self, call: grpc.ClientCallDetails) -> grpc.ClientCallDetails:
        return _CallDetails(call, (*(call.metadata or ()), self._entry))


# -- Which addresses need authentication ---------------------------------------------------


def write_token(path: Path) -> str:
    """Writes a new token into a file that only its owner can read; the token."""
    token = secrets.token_urlsafe(32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
    return token


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host's address; one that cannot be found is not."""
    try:
        return all(place.is_loopback for place in _places(host))
    except OSError:
        return False


def _places(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses of a host; no host means every interface."""
    host = host.strip("[]")
    flags = 0 if host else socket.AI_PASSIVE
    found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=flags)
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def check_authentication(task: str, address: str, security: Security) -> None:
    """Checks that a server that other machines can reach authenticates its callers.

    Raises:
      FailedPreconditionError: It has none, and nobody said that it needs none.
      UnknownError: The host cannot be found.
    """
    if security.uses_tls or security.token or security.insecure:
        return
    host = address.rpartition(":")[0]
    try:
        places = _places(host)
    except OSError as error:
        raise errors.UnknownError(
            None, None, f"Could not start gRPC server: the host {host!r} cannot be found: {error}"
        ) from None
    if not all(place.is_loopback for place in places):
        raise errors.FailedPreconditionError(
            None,
            None,
            f"The server of {task} refuses to start unauthenticated: other machines can reach "
            f"{address}, and anybody who does could run anything on it. {_HOW}",
        )
