"""Going on with a training from the model that was exported of it.

A model's files hold what a stage has learned, in half the bytes of `rtc_agent.training.slim`'s.
What they lack to be gone on with is small: auxiliary heads, and how far the stage is.

    python -m rtc_agent.training.from_model rest OUT FOLDER
    python -m rtc_agent.training.from_model fill FOLDER MODEL OUT
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer

from rtc_agent.errors import CheckpointError, RtcAgentError
from rtc_agent.model.folder import ModelFolder
from rtc_agent.training.eight_bit import load_eight_bit
from rtc_agent.training.keyed import module_state
from rtc_agent.training.slim import KEPT
from rtc_agent.training.stage import has_state, read_state

_STAGES = ("codec", "decoder", "lm")
_SUFFIX = ".rest.pt"


def write_rest(out: Path, folder: Path) -> list[Path]:
    """Write what a model lacks of the stages that `out` holds; returns the files.

    Raises:
        CheckpointError: there is no stage, or one is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for stage in _STAGES:
        if has_state(state := out / f"{stage}.state"):
            whole = read_state(state)
            kept = {
                name: whole["trainer"][name]
                for name in ("heads", *KEPT)
                if name in whole["trainer"]
            }
            rest = {"trainer": kept, "spent": whole["spent"], "step": whole["step"]}
            torch.save(rest, path := folder / f"{stage}{_SUFFIX}")
            written.append(path)
    if not written:
        raise CheckpointError(f"{out} holds no stage that was trained.")
    return written


def fill(folder: Path, model: Path, out: Path) -> list[Path]:
    """Put the files of `write_rest` and a model together as checkpoints in `out`.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    opened = ModelFolder.open(model)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for rest in sorted(folder.glob(f"*{_SUFFIX}")):
        name = rest.name.removesuffix(_SUFFIX)
        try:
            whole = torch.load(rest, map_location="cpu", weights_only=True)
        except Exception as error:
            raise CheckpointError(f"{rest} cannot be read: {error}") from error
        tensors = load_eight_bit(opened.lm if name == "lm" else opened.codec)
        whole["trainer"]["tensors"] = module_state(tensors)
        torch.save(whole, path := out / f"{name}.state")
        written.append(path)
    if not written:
        raise CheckpointError(f"{folder} holds no *{_SUFFIX}.")
    return written


app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command("rest")
def _rest(
    out: Annotated[Path, typer.Argument(help="Where the stages are, or their *.slim-*.pt.")],
    folder: Annotated[Path, typer.Argument(help="Where the files go.")],
) -> None:
    """Write what a model lacks of the stages that it was exported from."""
    _tell(lambda: write_rest(out, folder))


@app.command("fill")
def _fill(
    folder: Annotated[Path, typer.Argument(help="Where `rest` put its files.")],
    model: Annotated[Path, typer.Argument(help="The model's folder.")],
    out: Annotated[Path, typer.Argument(help="`train-demo --out`, to go on there.")],
) -> None:
    """Make of a model and those files what `train-demo` goes on from."""
    _tell(lambda: fill(folder, model, out))


def _tell(work: Callable[[], list[Path]]) -> None:
    try:
        for path in work():
            typer.echo(f"{path} {path.stat().st_size}")
    except RtcAgentError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app()
