"""The server's certificate: loaded, loaded again once its files change, made for a first try."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import logging
import os
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rtc_agent.errors import ConfigError

log = logging.getLogger(__name__)

LOOK_EVERY_S = 10.0


class Certificate:
    """A certificate in files, which somebody renews now and then."""

    def __init__(self, cert: Path, key: Path) -> None:
        """
        Raises:
            ConfigError: the files cannot be read, or do not belong together.
        """
        self._cert = cert
        self._key = key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self._seen = self._stamps()
        self._load(self.context)

    def reload(self) -> None:
        """Connections from now on get what is in the files. Files that do not fit change nothing.

        Raises:
            ConfigError: they cannot be read, or do not belong together.
        """
        self._seen = self._stamps()
        # Tried apart, since a half-loaded pair would break the context that is in use.
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self._load(self.context)
        log.info("the certificate was loaded anew")

    async def watch(self) -> None:
        """Reload whenever the files have changed; for a task."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()

    def look(self) -> None:
        """Reload if the files have changed."""
        if self._stamps() == self._seen:
            return
        try:
            self.reload()
        except ConfigError as error:
            log.error("%s The certificate that was loaded before stays in use.", error.message)

    def _stamps(self) -> list[tuple[int, int, int]]:
        found = []
        for path in (self._cert, self._key):
            try:
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_ino, stat.st_size))
            except OSError:
                found.append((0, 0, 0))
        return found

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self._cert, self._key, password=_no_password)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The certificate {self._cert} and key {self._key} cannot be used: {error}."
            ) from error


def _no_password() -> str:
    raise ValueError("the key has a password, and there is nobody to ask for it")


def make_self_signed(names: Sequence[str], days: int) -> tuple[bytes, bytes]:
    """A certificate for these host names and addresses, and its key; both PEM.

    Nobody vouches for it: browsers warn until it is accepted or installed.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def write_private(path: Path, content: bytes) -> None:
    """A new file that only its owner reads.

    Raises:
        ConfigError: it is there already, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except FileExistsError:
        raise ConfigError(f"{path} is there already; it is not overwritten.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
