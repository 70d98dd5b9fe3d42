"""`rtc-agent certs`: a self-signed certificate, for a first try over HTTPS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(certs)


def certs(
    names: Annotated[
        list[str], typer.Argument(help="Host names and addresses by which the server is reached.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for cert.pem and key.pem.")] = Path("."),
    days: Annotated[int, typer.Option(min=1, max=825, help="How long it is good for.")] = 90,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Make a certificate that nobody vouches for: browsers warn until it is accepted.

    Files that are there already are not overwritten.
    """
    from rtc_agent.cli.output import json_refusal, print_json
    from rtc_agent.errors import ConfigError
    from rtc_agent.tls import make_self_signed, write_private

    cert, key = out / "cert.pem", out / "key.pem"
    with json_refusal(as_json):
        try:
            cert_pem, key_pem = make_self_signed(names, days)
        except ValueError as error:
            raise ConfigError(f"No certificate can be made for {names}: {error}.") from error
        for path in (cert, key):
            if path.exists():
                raise ConfigError(f"{path} is there already; it is not overwritten.")
        write_private(key, key_pem)
        write_private(cert, cert_pem)
    if as_json:
        print_json({"ok": True, "cert": str(cert), "key": str(key), "names": names, "days": days})
        return
    typer.echo(f"rtc-agent serve --tls-cert {cert} --tls-key {key}")
    host = f"[{names[0]}]" if ":" in names[0] else names[0]
    typer.echo(f"SSL_CERT_FILE={cert} rtc-agent call https://{host}:8080 …   # trusts it", err=True)
