"""`rtc-agent sip`: the telephone bridge as a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rtc_agent.cli import interrupts


def register(app: typer.Typer) -> None:
    app.command()(sip)


def sip(
    janus: Annotated[
        str | None, typer.Option(help="WebSocket URL of the SIP gateway, ws://HOST:8188.")
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            help="Server whose agent talks; repeatable, taken in turn.",
            show_default="http://127.0.0.1:8080",
        ),
    ] = None,
    account: Annotated[
        str | None, typer.Option(help="The line's SIP address, sip:name@host.")
    ] = None,
    registration: Annotated[
        str | None,
        typer.Option(help="register, trunk or guest.", show_default="register"),
    ] = None,
    proxy: Annotated[str | None, typer.Option(help="SIP registrar, sip:host:port.")] = None,
    lines: Annotated[
        int | None, typer.Option(help="Telephone calls at once.", show_default="4")
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(help="debug shows numbers of callers."),
    ] = "info",
    config: Annotated[
        Path | None, typer.Option(help="TOML file; its [telephony] table counts here.")
    ] = None,
) -> None:
    """Bridge telephone calls to agents on other servers.

    Prints `ready` and the line's address on stdout once it is registered. The account's password
    is read from the config file or from RTC_AGENT_SIP_PASSWORD, and a key that the servers want
    from RTC_AGENT_KEY, neither from the command line.

    Where the agent runs on the same machine, `rtc-agent serve` with a [telephony] table does more:
    calls out, keys and holds that reach the agent.
    """
    import os

    from rtc_agent import logs
    from rtc_agent.telephony import standalone

    settings = standalone.load(
        config,
        janus=janus,
        account=account,
        registration=registration,
        proxy=proxy,
        lines=lines,
        password=os.environ.get("RTC_AGENT_SIP_PASSWORD"),
    )
    logs.setup(log_level)
    servers = server or ["http://127.0.0.1:8080"]
    interrupts.run(
        standalone.run(settings, servers, announce=lambda uri: typer.echo(f"ready {uri}"))
    )


def probe_phone(uri: str, seconds: float, unusable: list[str], as_json: bool) -> None:
    """`rtc-agent probe sip:…`: measure a telephone call to an echo agent.

    Exit status: 0 measured; 1 no echo was heard or the call broke off; 2 refused or unreachable.

    Args:
        unusable: options that were given and mean nothing to a telephone.
    """
    from rtc_agent.cli.output import json_refusal, print_fields, print_json
    from rtc_agent.client.sip_probe import SipProbeOrder, probe
    from rtc_agent.errors import InvalidRequest

    with json_refusal(as_json):
        if unusable:
            raise InvalidRequest(f"A probe over the telephone has no {', '.join(unusable)}.")
        report = interrupts.run(probe(SipProbeOrder(uri, seconds)))
    fields = report.as_dict()
    if as_json:
        print_json(fields)
    else:
        print_fields(fields)
    if not report.ok:
        why = "no echo came" if report.ended == "hangup" else f"the call ended: {report.ended}"
        typer.echo(f"rtc-agent: {why}", err=True)
        raise typer.Exit(1)
