"""Certificates for one job: an authority of its own, and a certificate for each task and client.

They are short-lived, and meant to be thrown away with the job. The authority's key is used here
and never written: who has the folder can speak with the job, but cannot let anybody else in.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from millrace.rpc.security import (
    TLS_CA,
    TLS_CERTIFICATE,
    TLS_KEY,
    memory_file,
)

AUTHORITY_FILE = "authority.pem"
#: Names by which a machine speaks with itself.
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
DEFAULT_DAYS = 30.0
#: Clocks of machines differ a little.
_BEFORE = datetime.timedelta(minutes=5)


class Authority:
    """Signs the certificates of one job.

    Args:
      days: How long its certificates are valid.
    """

    def __init__(self, days: float = DEFAULT_DAYS) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self._from, self._until = now - _BEFORE, now + datetime.timedelta(days=days)
        self._key = ec.generate_private_key(ec.SECP256R1())
        # A serial in the name: authorities of two jobs must not be taken for each other.
        self._name = _name(f"millrace job {x509.random_serial_number() >> 96:016x}")
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(self._key_name(), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> bytes:
        """Its own certificate, in PEM."""
        return _pem(self._certificate)

    def issue(
        self,
        name: str,
        hosts: Sequence[str],
        valid: tuple[datetime.datetime, datetime.datetime] | None = None,
    ) -> tuple[bytes, bytes]:
        """A certificate and its key, in PEM, to serve at `hosts` and to be a client.

        Args:
          name: Whose it is, for people.
          hosts: Host names and addresses at which its holder is reached.
          valid: From when to when; as long as the authority by default.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            self._builder(_name(name), key, valid)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return _pem(made), secret

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        valid: tuple[datetime.datetime, datetime.datetime] | None = None,
    ) -> x509.CertificateBuilder:
        start, end = valid or (self._from, self._until)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(end)
        )

    def _key_name(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())


def make_folder(
    folder: Path, names: Sequence[str], hosts: Sequence[str], days: float = DEFAULT_DAYS
) -> dict[str, dict[str, str]]:
    """Makes an authority and writes certificates and keys that only this user can read.

    Args:
      folder: Made with access for its owner only; it must not be there, or be empty.
      names: A certificate is made for each of these tasks and clients.
      hosts: Where the tasks are; the machine's own loopback is added.
      days: How long they are valid.

    Returns:
      For each name the environment variables that let a process use its certificate.

    Raises:
      FileExistsError: The folder holds something.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    folder.chmod(0o700)
    authority = Authority(days)
    all_hosts = list(dict.fromkeys([*hosts, *LOOPBACK_HOSTS]))
    write_secret(folder / AUTHORITY_FILE, authority.certificate)
    found: dict[str, dict[str, str]] = {}
    for name in names:
        certificate, key = authority.issue(name, all_hosts)
        write_secret(folder / f"{name}.pem", certificate)
        write_secret(folder / f"{name}.key", key)
        found[name] = variables(folder, name)
    return found


class KeysInMemory:
    """Certificates and keys that are in no file, and gone when this process is, however it ends.

    Other processes of this user read them at paths in ``/proc``, as long as this one lives.

    Attributes:
      variables: For each name the environment variables that let a process use its certificate.
    """

    def __init__(self, names: Sequence[str], hosts: Sequence[str], days: float) -> None:
        """Makes an authority and certificates; arguments as of `make_folder`."""
        authority = Authority(days)
        all_hosts = list(dict.fromkeys([*hosts, *LOOPBACK_HOSTS]))
        self._files: list[int] = []
        place = self._keep(authority.certificate)
        self.variables: dict[str, dict[str, str]] = {}
        for name in names:
            certificate, key = authority.issue(name, all_hosts)
            self.variables[name] = {
                TLS_CA: place,
                TLS_CERTIFICATE: self._keep(certificate),
                TLS_KEY: self._keep(key),
            }

    def close(self) -> None:
        """Forgets them."""
        while self._files:
            os.close(self._files.pop())

    def _keep(self, content: bytes) -> str:
        descriptor = memory_file(content)
        self._files.append(descriptor)
        return f"/proc/{os.getpid()}/fd/{descriptor}"


def variables(folder: Path | str, name: str) -> dict[str, str]:
    """The environment variables for one of the certificates in a folder of `make_folder`."""
    place = Path(folder)
    return {
        TLS_CA: str(place / AUTHORITY_FILE),
        TLS_CERTIFICATE: str(place / f"{name}.pem"),
        TLS_KEY: str(place / f"{name}.key"),
    }


def write_secret(path: Path, content: bytes) -> None:
    """Writes a new file that only this user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    text = text.strip("[]")
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> bytes:
    found: bytes = certificate.public_bytes(serialization.Encoding.PEM)
    return found
