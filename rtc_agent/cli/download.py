"""`rtc-agent download`: the model's files from the hub."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from rtc_agent.cli import interrupts


def register(app: typer.Typer) -> None:
    app.command()(download)


def download(
    model: Annotated[
        str, typer.Argument(help="personaplex, moshiko or moshika (Moshi's two voices).")
    ] = "personaplex",
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the files.", show_default="~/.local/share/rtc-agent/models/…"
        ),
    ] = None,
    revision: Annotated[str, typer.Option(help="Branch, tag or commit of the repository.")] = (
        "main"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object as the last line.")
    ] = False,
) -> None:
    """Fetch a model's files; run it again to go on where it stopped.

    PersonaPlex's weights (17 GB) are gated: accept the licence on its page, then set HF_TOKEN to
    a token of yours. HF_ENDPOINT chooses another hub.
    """
    from rtc_agent.cli.output import json_refusal, print_json
    from rtc_agent.errors import InvalidRequest
    from rtc_agent.model.catalog import MODELS, default_folder
    from rtc_agent.model.download import download as fetch
    from rtc_agent.model.download import total_size
    from rtc_agent.model.hub import Hub

    with json_refusal(as_json):
        if model not in MODELS:
            raise InvalidRequest(f"There is no model {model!r}; choose one of {', '.join(MODELS)}.")
        published = MODELS[model]
        folder = output or default_folder(published)
        typer.echo(f"{published.repo} → {folder}", err=True)
        with _Bars() as bars:
            paths = interrupts.run(
                fetch(published, folder, Hub.from_environment(revision), bars.show)
            )
    if as_json:
        files = {path.name: path.stat().st_size for path in paths}
        print_json({"ok": True, "model": model, "folder": str(folder), "files": files})
    else:
        typer.echo(f"{len(paths)} files, {total_size(paths) / 1e9:.2f} GB, in {folder}")


class _Bars:
    """A progress bar on stderr for each file in turn."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._name = ""
        self._bar: Any = None

    def __enter__(self) -> _Bars:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def show(self, name: str, done: int, total: int) -> None:
        if name != self._name:
            self._stack.close()
            bar = typer.progressbar(length=total, label=name, file=typer.get_text_stream("stderr"))
            self._name, self._bar = name, self._stack.enter_context(bar)
        self._bar.update(done - self._bar.pos)
