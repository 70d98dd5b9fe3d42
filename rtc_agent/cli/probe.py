"""`rtc-agent probe`: mouth-to-ear latency and sound quality of calls to an echo agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rtc_agent.cli import interrupts
from rtc_agent.cli.options import IceHosts, Relay
from rtc_agent.cli.output import json_refusal, print_fields, print_json


def register(app: typer.Typer) -> None:
    app.command()(probe)


def probe(
    url: Annotated[
        str,
        typer.Argument(
            help="A server whose agent echoes (--agent echo), or the SIP address "
            "(sip:name@host:port) at which it answers the telephone."
        ),
    ],
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 30.0,
    impair: Annotated[
        str,
        typer.Option(
            help="A bad network, as loss=0.02,jitter_ms=30. Names: loss, burst (mean run), "
            "delay_ms, jitter_ms (±), reorder, reorder_ms, duplicate, dtx, drift_ppm, "
            "direction (up, down, both), seed."
        ),
    ] = "",
    phone: Annotated[
        bool, typer.Option("--phone", help="Speak PCMU at 8 kHz, as a telephone does.")
    ] = False,
    speech: Annotated[
        Path | None,
        typer.Option(help="WAV to say after the chirps; its echo is scored by ViSQOL."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="PNG to draw the measurement into.")] = None,
    ice_host: IceHosts = None,
    relay: Relay = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object as the last line.")
    ] = False,
) -> None:
    """Measure mouth-to-ear latency by chirps, and what is lost on the way.

    A chirp counts from its first sample being said until the packet with that sample is back.
    Exit status: 0 measured; 1 no echo was heard or the call broke off; 2 refused or unreachable.
    """
    from rtc_agent.client import plot as drawing
    from rtc_agent.client import probe as probing
    from rtc_agent.client.impair import Impairment
    from rtc_agent.client.relays import ice_for
    from rtc_agent.errors import CallFailed

    if url.lower().startswith("sip:"):
        from rtc_agent.cli.sip import probe_phone

        webrtc_alone = {"--impair": impair, "--speech": speech, "--plot": plot, "--relay": relay}
        probe_phone(url, seconds, [name for name, value in webrtc_alone.items() if value], as_json)
        return
    try:
        with json_refusal(as_json):
            if plot is not None:
                drawing.require()
            impairment = Impairment.parse(impair)

            async def run() -> probing.ProbeReport:
                order = probing.ProbeOrder(
                    url=url,
                    seconds=seconds,
                    impairment=impairment,
                    phone=phone,
                    speech=speech,
                    ice=await ice_for(url, ice_host, relay),
                )
                return await probing.probe(order)

            report = interrupts.run(run())
            if plot is not None:
                drawing.plot(report.measured, f"{url}  {impair}".strip(), plot)
    except CallFailed as error:
        typer.echo(f"rtc-agent: {error.message}", err=True)
        raise typer.Exit(1) from None
    fields = report.as_dict()
    if as_json:
        print_json(fields)
    else:
        print_fields(fields)
    if not report.ok:
        why = (
            f"the call ended early: {report.ended}" if report.ended != "hangup" else "no echo came"
        )
        typer.echo(f"rtc-agent: {why}", err=True)
        raise typer.Exit(1)
