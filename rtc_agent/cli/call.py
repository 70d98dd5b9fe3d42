"""`rtc-agent call`: a headless call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rtc_agent.cli import interrupts
from rtc_agent.cli.options import IceHosts, Relay
from rtc_agent.cli.output import json_refusal, print_json


def register(app: typer.Typer) -> None:
    app.command()(call)


def call(
    url: Annotated[str, typer.Argument(help="The server, as http://127.0.0.1:8080.")],
    input_: Annotated[
        Path, typer.Option("--input", help="WAV file to say; any rate, width and channels.")
    ],
    output: Annotated[Path, typer.Option(help="WAV file to write: the agent, 24 kHz mono.")],
    transcript: Annotated[
        Path | None, typer.Option(help="File for the agent's messages, one JSON object a line.")
    ] = None,
    voice: Annotated[
        str | None, typer.Option(help="A voice of the agent's.", show_default="the agent's own")
    ] = None,
    persona: Annotated[
        str | None, typer.Option(help="Who the agent is to be, in plain words.")
    ] = None,
    leading: Annotated[
        float,
        typer.Option(
            min=0, max=3_600, help="Seconds to say nothing before the file, for the greeting."
        ),
    ] = 0.0,
    trailing: Annotated[
        float,
        typer.Option(min=0, max=86_400, help="Seconds to go on recording after the file's end."),
    ] = 0.0,
    ice_host: IceHosts = None,
    relay: Relay = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object as the last line.")
    ] = False,
) -> None:
    """Play a file to the agent in real time and record what it answers.

    The recording is as long as the file (with --leading and --trailing), and keeps the delay a
    listener has.
    Exit status: 0 all was played and recorded; 1 the call did not come up or broke off;
    2 refused, unreachable, or a file that cannot be used.
    A key for the server is read from RTC_AGENT_KEY; SSL_CERT_FILE names a certificate to trust.
    """
    from rtc_agent.client.place_call import CallOrder, CallReport, place_call
    from rtc_agent.client.relays import ice_for
    from rtc_agent.errors import CallFailed

    async def run() -> CallReport:
        order = CallOrder(
            url=url,
            input=input_,
            output=output,
            transcript=transcript,
            voice=voice,
            persona=persona,
            leading_s=leading,
            trailing_s=trailing,
            ice=await ice_for(url, ice_host, relay),
        )
        return await place_call(order)

    try:
        with json_refusal(as_json):
            report = interrupts.run(run())
    except CallFailed as error:
        typer.echo(f"rtc-agent: {error.message}", err=True)
        raise typer.Exit(1) from None
    if report.left_out_s:
        typer.echo(
            f"rtc-agent: the agent did not hear {report.left_out_s:.2f} s of the file: the server "
            "was too slow and left them out",
            err=True,
        )
    if report.complete and report.reply_cut:
        typer.echo(
            "rtc-agent: the agent was still speaking when the recording ended; "
            f"--trailing {trailing + 10:g} gives it longer",
            err=True,
        )
    if not report.complete:
        typer.echo(f"rtc-agent: the call ended early: {report.ended}", err=True)
    if as_json:
        print_json(report.as_dict())
    else:
        typer.echo(
            f"connected in {report.connect_ms:.0f} ms, ready in {report.ready_ms:.0f} ms; "
            f"recorded {report.duration_s:.2f} s into {output}, {report.lost_packets} packets lost"
        )
        if report.text:
            typer.echo(report.text)
    if not report.complete:
        raise typer.Exit(1)
