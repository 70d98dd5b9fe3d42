"""`rtc-agent voices`: list a model's voices, make new ones from a recording, let them be heard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rtc_agent.cli.options import Device

if TYPE_CHECKING:
    from rtc_agent.config import Settings
    from rtc_agent.engine.stepper import Pcm
    from rtc_agent.model.folder import ModelFolder
    from rtc_agent.model.prompts import VoiceClip, VoiceCodes

_LISTEN_S = 12
"""How long the model is listened to for a sample; it begins to speak within two or three."""

_MODEL = typer.Option(
    help="Folder of the model's files.", show_default="where `download` puts PersonaPlex"
)


def register(app: typer.Typer) -> None:
    voices = typer.Typer(help="List a model's voices, add one, or make a short listen to one.")
    voices.callback(invoke_without_command=True)(_list_by_default)
    voices.command("list")(list_voices)
    voices.command("add")(add)
    voices.command("sample")(sample)
    app.add_typer(voices, name="voices")


def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_voices()


def list_voices(
    model: Annotated[Path | None, _MODEL] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """List the voices that a call can ask for; the default one is marked, and those that the call
    page can play a sample of."""
    from rtc_agent.cli.output import json_refusal, print_json
    from rtc_agent.model.voices import VoiceLibrary

    with json_refusal(as_json):
        folder = _open(model)
        library = VoiceLibrary(folder.path, folder.spec)
    if as_json:
        told = {"voices": library.names, "default": library.default}
        print_json({"ok": True, **told, "samples": sorted(library.samples)})
        return
    for name in library.names:
        marks = [
            *(["default"] if name == library.default else []),
            *(["with a sample"] if name in library.samples else []),
        ]
        typer.echo(f"{name} ({', '.join(marks)})" if marks else name)
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
    """Make a voice of a recording and keep it as voices/NAME.pt in the model's folder, with its
    first seconds as the sample that the call page plays."""
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


def sample(
    name: Annotated[str, typer.Argument(help="A voice of the model.")],
    model: Annotated[Path | None, _MODEL] = None,
    device: Device = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Make the sample that the call page plays: a voice that is a recording gives its first
    seconds, any other is spoken by the model, which has to run on this machine for that."""
    from rtc_agent.cli.output import json_refusal, print_json
    from rtc_agent.config import load
    from rtc_agent.model.spec import PERSONAPLEX
    from rtc_agent.model.voices import VoiceLibrary

    with json_refusal(as_json):
        folder = _open(model)
        library = VoiceLibrary(folder.path, folder.spec)
        pcm = library.recording(name)
        if pcm is None:
            agent = "personaplex" if folder.spec.family is PERSONAPLEX else "moshi"
            settings = load(agent=agent, model=folder.path, device=device, sessions=1, banks=1)
            pcm = _spoken(settings, name)
        path = library.keep_sample(name, pcm)
    if as_json:
        print_json({"ok": True, "voice": name, "file": str(path)})
    else:
        typer.echo(f"{name} can be listened to: {path}")


def _spoken(settings: Settings, voice: str) -> Pcm:
    """What the agent says in that voice to somebody who is silent."""
    import numpy as np

    from rtc_agent.engine.agents import create_stepper
    from rtc_agent.engine.stepper import SamplingSpec, SessionSpec
    from rtc_agent.offline import Silence, run_offline

    choice = create_stepper(settings, lambda line: typer.echo(line, err=True), live=False)
    said: list[Pcm] = []
    try:
        spec = SessionSpec(voice=voice, sampling=SamplingSpec(seed=0))
        run_offline(choice.stepper, (), lambda: 0, said.append, spec, Silence(trailing_s=_LISTEN_S))
    finally:
        choice.stepper.shutdown()
    return np.concatenate(said)


def _open(path: Path | None) -> ModelFolder:
    from rtc_agent.model.catalog import MODELS, default_folder
    from rtc_agent.model.folder import ModelFolder

    return ModelFolder.open(path or default_folder(MODELS["personaplex"]))
