"""`rtc-agent train-demo`: train the demo agent, or one of your own domain."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from rtc_agent.cli.output import json_refusal, print_json


def register(app: typer.Typer) -> None:
    app.command("train-demo")(train_demo)


def train_demo(
    data: Annotated[
        Path, typer.Option(help="The data's folder: python -m rtc_agent.training.data prepare.")
    ],
    out: Annotated[Path, typer.Option(help="Where checkpoints go, and in the end the model.")],
    stage: Annotated[
        str, typer.Option(help="codec, decoder, lm, export, or all of them in turn.")
    ] = "all",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = "auto",
    seconds_codec: Annotated[float, typer.Option(min=1, help="Training of the codec.")] = 300,
    seconds_decoder: Annotated[float, typer.Option(min=1, help="Of its decoder, after.")] = 150,
    seconds_lm: Annotated[float, typer.Option(min=1, help="Of the language model.")] = 900,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, help="Stop a stage after so long; run it again to go on."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes that make conversations ahead.")
    ] = 0,
    compiled: Annotated[
        bool,
        typer.Option(
            "--compile/--no-compile",
            help="Compile the language model's step; minutes at first, then fewer launches.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object as the last line.")
    ] = False,
) -> None:
    """Train codec and language model and write a model folder.

    A stage that was stopped goes on where it was; `lm` and `decoder` need `codec` alone, so they
    may run side by side. Exit status 1: a stage is still to be gone on with.

    Example: rtc-agent train-demo --data demo-data --out demo-training --workers 12
    """
    from dataclasses import replace

    from rtc_agent.engine.devices import choose_device
    from rtc_agent.errors import ConfigError
    from rtc_agent.training.data import open_data
    from rtc_agent.training.data.augment import Line
    from rtc_agent.training.lm_training import LmRun
    from rtc_agent.training.pipeline import STAGES, Pipeline, Runs, Seconds

    with json_refusal(as_json):
        if stage not in (*STAGES, "all"):
            raise ConfigError(f"{stage!r} is no stage; there are {', '.join(STAGES)} and all.")
        on = choose_device(device)
        compiler = "inductor" if compiled else None
        pipeline = Pipeline(
            out,
            open_data(data),
            Line(),
            on,
            lambda line: typer.echo(line, err=True),
            seconds=Seconds(seconds_codec, seconds_decoder, seconds_lm),
            runs=replace(Runs(), lm=replace(LmRun(), workers=workers, compiler=compiler)),
            run_seconds=math.inf if seconds is None else seconds,
        )
        done: dict[str, bool] = {}
        for name in STAGES:
            if stage in (name, "all") and all(done.values()):
                done[name] = pipeline.run(name)
    if as_json:
        print_json({"ok": all(done.values()), "done": done})
    raise typer.Exit(0 if all(done.values()) else 1)
