"""What a stage has learned, without what only the machine that taught it needs.

A state holds the optimiser's memory and thousands of conversations. Its weights alone, in float16
and in files small enough to be fetched one by one, let another machine go on: the optimiser begins
anew there, as does the learning rate's rise, and conversations are made anew.

    python -m rtc_agent.training.slim OUT/lm.state FOLDER
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from rtc_agent.errors import CheckpointError, RtcAgentError

_TENSORS = ("tensors", "heads")
KEPT = ("step", "made", "replies")
"""What is kept beside tensors."""
MOST_BYTES = 14_000_000
"""Of one file, nearly."""


def write_slim(state: Path, folder: Path, most: int = MOST_BYTES) -> list[Path]:
    """Write the weights of `state`, a stage's, as files that `read_slim` takes.

    Args:
        most: bytes of tensors in a file.

    Raises:
        CheckpointError: there is no such state, or it is damaged.
    """
    from rtc_agent.training.stage import read_state

    whole = read_state(state)
    trainer = whole["trainer"]
    parts = list(_parts(trainer, most))
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{state.stem}.slim-*of*.pt"):
        old.unlink()
    rest = {name: trainer[name] for name in KEPT if name in trainer}
    written = []
    for i, part in enumerate(parts, 1):
        path = folder / f"{state.stem}.slim-{i}of{len(parts)}.pt"
        kept = {"trainer": part | rest, "spent": whole["spent"], "step": whole["step"]}
        torch.save(kept, path)
        written.append(path)
    return written


def slim_files(state: Path) -> list[Path]:
    """Those that stand in for a state, beside where it would be."""
    return sorted(state.parent.glob(f"{state.stem}.slim-*of*.pt"))


def read_slim(state: Path) -> dict[str, Any]:
    """As `rtc_agent.training.stage.read_state`, of the files that stand in for it; in float32.

    Raises:
        CheckpointError: some of them are missing or damaged.
    """
    files = slim_files(state)
    number = files[0].stem.rpartition("of")[2] if files else "0"
    if not files or len(files) != int(number):
        raise CheckpointError(f"{state.stem}: {len(files)} of {number} files of weights are there.")
    whole: dict[str, Any] = {}
    trainer: dict[str, Any] = {}
    for path in files:
        try:
            whole = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        for name, value in whole["trainer"].items():
            if name in _TENSORS:
                trainer.setdefault(name, {}).update({k: _wide(t) for k, t in value.items()})
            else:
                trainer[name] = value
    return {"trainer": trainer, "spent": whole["spent"], "step": whole["step"]}


def _parts(trainer: dict[str, Any], most: int) -> Iterator[dict[str, dict[str, Tensor]]]:
    """The tensors, in groups of so many bytes."""
    part: dict[str, dict[str, Tensor]] = {}
    size = 0
    for group in _TENSORS:
        for key, tensor in trainer.get(group, {}).items():
            narrow = _narrow(tensor)
            if size and size + narrow.nbytes > most:
                yield part
                part, size = {}, 0
            part.setdefault(group, {})[key] = narrow
            size += narrow.nbytes
    yield part


def _narrow(tensor: Tensor) -> Tensor:
    half = tensor.half() if tensor.is_floating_point() else tensor
    return half.clone() if bool(half.isfinite().all()) else tensor


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _main(
    state: Annotated[Path, typer.Argument(help="OUT/lm.state, say.")],
    folder: Annotated[Path, typer.Argument(help="Where the files go.")],
) -> None:
    """Write what a stage has learned as files of weights alone; put into --out, they go on."""
    try:
        for path in write_slim(state, folder):
            typer.echo(f"{path} {path.stat().st_size}")
    except RtcAgentError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    typer.run(_main)
