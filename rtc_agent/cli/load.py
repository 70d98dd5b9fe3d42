"""`rtc-agent load`: many calls at once."""

from __future__ import annotations

from typing import Annotated

import typer

from rtc_agent.cli import interrupts
from rtc_agent.cli.options import IceHosts
from rtc_agent.cli.output import json_refusal, print_fields, print_json


def register(app: typer.Typer) -> None:
    app.command()(load)


def load(
    url: Annotated[str, typer.Argument(help="A server whose agent echoes (--agent echo).")],
    calls: Annotated[int, typer.Option(help="Calls at once.")],
    seconds: Annotated[float, typer.Option(help="How long all of them talk.")] = 20.0,
    processes: Annotated[
        int | None,
        typer.Option(help="Processes for the callers.", show_default="one for 8 calls"),
    ] = None,
    ramp: Annotated[
        float, typer.Option(min=0, help="Seconds between the beginnings of two calls.")
    ] = 0.1,
    impair: Annotated[str, typer.Option(help="A bad network, as for `probe`.")] = "",
    ice_host: IceHosts = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object as the last line.")
    ] = False,
) -> None:
    """Put N calls on a server at once and measure each by chirps.

    Exit status: 0 every call was good; 1 some failed; 2 bad usage.
    """
    from rtc_agent.client.impair import Impairment
    from rtc_agent.client.load import LoadOrder
    from rtc_agent.client.load import load as run
    from rtc_agent.media.ice import IceSettings

    with json_refusal(as_json):
        order = LoadOrder(
            url=url,
            calls=calls,
            seconds=seconds,
            processes=processes,
            ramp_s=ramp,
            impairment=Impairment.parse(impair),
            ice=IceSettings(hosts=tuple(ice_host or ())),
        )
        report = interrupts.run(run(order))
    fields = report.as_dict()
    if as_json:
        print_json(fields)
    else:
        print_fields(fields)
    if len(report.good) < len(report.outcomes):
        typer.echo(f"rtc-agent: {fields['failed_calls']} calls failed", err=True)
        raise typer.Exit(1)
