"""`rtc-agent verify`: replay recorded runs of the reference on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(verify)


def verify(
    folder: Annotated[Path, typer.Argument(help="Folder with a config, weights and a replay.")],
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = "cpu",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object as the last line.")
    ] = False,
) -> None:
    """Check that this build and this device compute exactly what the reference did.

    Tokens and codec codes have to be equal, sound within 1e-5, all in float32. Exit status 1 when
    something differs.
    """
    from rtc_agent import verify as replays
    from rtc_agent.cli.output import json_refusal, print_json
    from rtc_agent.engine.devices import choose_device

    with json_refusal(as_json):
        report = replays.verify(folder, choose_device(device))
    if as_json:
        print_json(report.as_json())
    else:
        for case in report.cases:
            at = case.first_mismatch
            verdict = "as recorded" if at is None else f"differs from frame {at}"
            typer.echo(f"{case.name:20} {case.frames:6} frames  {verdict}")
    raise typer.Exit(0 if report.ok else 1)
