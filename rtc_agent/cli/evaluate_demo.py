"""`rtc-agent evaluate-demo`: how well a model of the demo's domain holds calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rtc_agent.cli.options import Model
from rtc_agent.cli.output import json_refusal, print_json


def register(app: typer.Typer) -> None:
    app.command("evaluate-demo")(evaluate_demo)


def evaluate_demo(
    data: Annotated[Path, typer.Option(help="The data's folder, with the evaluation's callers.")],
    model: Model = None,
    sets: Annotated[
        str | None, typer.Option(help="Sets whose names begin so, comma-separated; else all.")
    ] = None,
    most: Annotated[int | None, typer.Option(min=1, help="Calls of a set, at most.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Calls held at once.")] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = "auto",
    asr: Annotated[
        bool, typer.Option("--asr", help="Let a recogniser judge the sound too (pocketsphinx).")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object as the last line.")
    ] = False,
) -> None:
    """Hold whole calls with the run-time's stepper, greedily, and say what was right.

    Without --model the packaged demo agent is measured.
    """
    from rtc_agent.engine.devices import choose_device
    from rtc_agent.errors import ConfigError
    from rtc_agent.model.catalog import DEMO_FOLDER
    from rtc_agent.training.data import open_data
    from rtc_agent.training.evaluation.calls import Model as CallModel
    from rtc_agent.training.evaluation.recognition import SentenceChooser
    from rtc_agent.training.evaluation.report import Evaluation, table

    with json_refusal(as_json):
        opened = open_data(data)
        prefixes = tuple(sets.split(",")) if sets else ("",)
        wanted = [s for s in opened.evaluation() if s.name.startswith(prefixes)]
        if not wanted:
            names = ", ".join(s.name for s in opened.evaluation())
            raise ConfigError(f"No set's name begins with {sets}; there are: {names}.")
        sentences = [sentence.text for sentence in opened.book.sentences]
        evaluation = Evaluation(
            CallModel.load(model or DEMO_FOLDER, choose_device(device)),
            opened,
            rows=rows,
            most=most,
            chooser=SentenceChooser(sentences) if asr else None,
            report=lambda line: typer.echo(line, err=True),
        )
        figures = evaluation.run(wanted)
    typer.echo(table(figures))
    if as_json:
        print_json({"ok": True, **figures})
