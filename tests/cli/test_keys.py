"""`rtc-agent token` and `rtc-agent certs`: what they make, and what they refuse."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from cryptography import x509
from typer.testing import CliRunner

from rtc_agent.cli.app import app
from rtc_agent.config import load
from rtc_agent.errors import ConfigError, ServerUnreachable

run = CliRunner()


def test_a_new_key_is_one_that_settings_take(tmp_path: Path) -> None:
    made = run.invoke(app, ["token", "--new", "ops", "--scope", "admin", "--scope", "call"])
    assert made.exit_code == 0
    secret = next(line for line in made.output.splitlines() if line.startswith("key: "))[5:]
    config = tmp_path / "server.toml"
    config.write_text(made.output[made.output.index("[[keys]]") :])
    [key] = load(config).keys
    assert key.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert set(key.scopes) == {"admin", "call"}


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ([], "--new NAME"),
        (["http://127.0.0.1:9", "--new", "x"], "--new NAME"),
        (["--new", "no spaces"], "No such key"),
        (["--new", "x", "--scope", "root"], "No such key"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], fault: str) -> None:
    outcome = run.invoke(app, ["token", *arguments, "--json"])
    assert isinstance(outcome.exception, ConfigError)
    assert fault in json.loads(outcome.output.splitlines()[-1])["error"]["message"]


def test_a_server_that_is_not_there_gives_no_client_secret(unused_tcp_port: int) -> None:
    outcome = run.invoke(app, ["token", f"http://127.0.0.1:{unused_tcp_port}"])
    assert isinstance(outcome.exception, ServerUnreachable)


def test_a_certificate_has_every_name_and_overwrites_nothing(tmp_path: Path) -> None:
    arguments = ["certs", "agent.example", "192.0.2.7", "--out", str(tmp_path), "--days", "7"]
    outcome = run.invoke(app, arguments)
    assert outcome.exit_code == 0
    trusting = f"SSL_CERT_FILE={tmp_path / 'cert.pem'} rtc-agent call https://agent.example:8080"
    assert trusting in outcome.output
    certificate = x509.load_pem_x509_certificate((tmp_path / "cert.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["agent.example", "192.0.2.7"]
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "key.pem").read_bytes()
    again = run.invoke(app, arguments)
    assert isinstance(again.exception, ConfigError)
    assert (tmp_path / "key.pem").read_bytes() == before


def test_a_name_that_no_certificate_can_have_is_refused(tmp_path: Path) -> None:
    outcome = run.invoke(app, ["certs", "bücher.example", "--out", str(tmp_path)])
    assert isinstance(outcome.exception, ConfigError)
    assert not list(tmp_path.iterdir())
