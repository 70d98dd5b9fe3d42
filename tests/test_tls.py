"""Certificates: made, served, renewed under way."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from rtc_agent.errors import ConfigError
from rtc_agent.tls import Certificate, make_self_signed, write_private


def write(folder: Path, *names: str) -> tuple[Path, Path]:
    cert, key = make_self_signed(names, days=2)
    (folder / "cert.pem").write_bytes(cert)
    (folder / "key.pem").write_bytes(key)
    return folder / "cert.pem", folder / "key.pem"


async def served_names(certificate: Certificate, trusted: Path) -> list[str]:
    """Names in the certificate that a new connection is shown, verified as a client does."""
    server = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=certificate.context
    )
    port = server.sockets[0].getsockname()[1]
    context = ssl.create_default_context(cafile=str(trusted))
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(True)
    writer.close()
    server.close()
    names = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return [str(name.value) for name in names.value]


async def test_a_client_that_trusts_it_gets_through(tmp_path: Path) -> None:
    cert, key = write(tmp_path, "agent.example", "127.0.0.1", "::1")
    found = await served_names(Certificate(cert, key), cert)
    assert found == ["agent.example", "127.0.0.1", "::1"]


async def test_renewed_files_are_shown_to_new_connections(tmp_path: Path) -> None:
    cert, key = write(tmp_path, "127.0.0.1", "old.example")
    certificate = Certificate(cert, key)
    write(tmp_path, "127.0.0.1", "new.example")
    certificate.look()
    assert await served_names(certificate, cert) == ["127.0.0.1", "new.example"]


async def test_files_that_do_not_fit_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = write(tmp_path, "127.0.0.1", "old.example")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(cert.read_bytes())
    certificate = Certificate(cert, key)
    for content in (b"", make_self_signed(["127.0.0.1"], 2)[0]):
        cert.write_bytes(content)
        certificate.look()
        assert "stays in use" in caplog.text
        caplog.clear()
        assert await served_names(certificate, trusted) == ["127.0.0.1", "old.example"]
    certificate.look()
    assert not caplog.text, "said once"


def test_a_missing_file_is_refused_at_the_start(tmp_path: Path) -> None:
    cert, _ = write(tmp_path, "127.0.0.1")
    with pytest.raises(ConfigError, match="cannot be used"):
        Certificate(cert, tmp_path / "none.pem")


def test_a_private_file_is_new_and_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    write_private(path, b"secret")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="already"):
        write_private(path, b"other")
    assert path.read_bytes() == b"secret"
