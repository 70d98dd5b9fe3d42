"""`rtc-agent voices`: list a model's voices, and make new ones from a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rtc_agent.model.folder import ModelFolder
    from rtc_agent.model.prompts import VoiceClip, VoiceCodes

_MODEL = typer.Option(
    help="Folder of the model's files.", show_default="where `download` puts PersonaPlex"
)


def register(app: typer.Typer) -> None:
    voices = typer.Typer(help="List a model's voices, or add one.")
    voices.callback(invoke_without_command=True)(_list_by_default)
    voices.command("list")(list_voices)
    voices.command("add")(add)
    app.add_typer(voices, name="voices")


def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_voices()


def list_voices(
    model: Annotated[Path | None, _MODEL] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """List the voices that a call can ask for; the default one is marked."""
    from rtc_agent.cli.output import json_refusal, print_json
    from rtc_agent.model.voices import VoiceLibrary

    with json_refusal(as_json):
        folder = _open(model)
        library = VoiceLibrary(folder.path, folder.spec)
    if as_json:
        print_json({"ok": True, "voices": library.names, "default": library.default})
        return
    for name in library.names:
        typer.echo(f"{name} (default)" if name == library.default else name)
    if not library.names:
        typer.echo(f"{folder.path} has no voices; `rtc-agent voices add` makes one.", err=True)


def add(
    name: Annotated[str, typer.Argument(help="What calls will ask for.")],
    recording: Annotated[
        Path, typer.Argument(help="WAV of one voice alone; about ten seconds of speech are best.")
    ],
    model: Annotated[Path | None, _MODEL] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite a voice of that name.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Make a voice of a recording and keep it as voices/NAME.pt in the model's folder."""
    from rtc_agent.cli.output import json_refusal, print_json
    from rtc_agent.model.checkpoint import load_mimi
    from rtc_agent.model.mimi import MimiEncoder
    from rtc_agent.model.opening import encode_clip, finish
    from rtc_agent.model.voice_file import embed_from_checkpoint
    from rtc_agent.model.voices import VoiceLibrary

    with json_refusal(as_json):
        folder = _open(model)
        mimi = folder.spec.mimi

        def encode(clip: VoiceClip) -> VoiceCodes:
            encoder = MimiEncoder(mimi, load_mimi(folder.codec, mimi), rows=1)
            return finish(encode_clip(encoder, clip))

        path = VoiceLibrary(folder.path, folder.spec).add(
            name,
            recording,
            encode,
            lambda columns: embed_from_checkpoint(folder.lm, columns),
            replace=replace,
        )
    if as_json:
        print_json({"ok": True, "voice": name, "file": str(path)})
    else:
        typer.echo(f"{name} is in {path}")


def _open(path: Path | None) -> ModelFolder:
    from rtc_agent.model.catalog import MODELS, default_folder
    from rtc_agent.model.folder import ModelFolder

    return ModelFolder.open(path or default_folder(MODELS["personaplex"]))
