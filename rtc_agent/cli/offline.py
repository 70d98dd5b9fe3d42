"""`rtc-agent offline`: a WAV in, the agent's WAV and text out, without a server."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rtc_agent.cli.options import Agent, Device, Model, Stages

if TYPE_CHECKING:
    from rtc_agent.errors import RtcAgentError

_DAY_S = 86_400


def register(app: typer.Typer) -> None:
    app.command()(offline)


def offline(
    input: Annotated[
        Path,
        typer.Option(help="The caller: a WAV of any rate, encoding and number of channels."),
    ],
    output: Annotated[
        Path, typer.Option(help="The agent: 24 kHz mono WAV, exactly as long as the input.")
    ],
    text: Annotated[
        Path | None, typer.Option(help="The agent's words as JSON, each with its frame and time.")
    ] = None,
    agent: Agent = None,
    model: Model = None,
    device: Device = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="auto, float32, bfloat16 or float16; for weights, keys and values.",
            show_default="auto",
        ),
    ] = None,
    stages: Stages = None,
    voice: Annotated[
        str | None, typer.Option(help="A voice of the agent; `rtc-agent voices` lists them.")
    ] = None,
    persona: Annotated[str | None, typer.Option(help="Who the agent is, in plain text.")] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Always the likeliest token: no chance at all.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Same seed, same answer.", show_default="drawn anew")
    ] = None,
    leading_silence: Annotated[
        float,
        typer.Option(min=0, max=_DAY_S, help="Seconds before the input, for an agent that greets."),
    ] = 0.0,
    trailing_silence: Annotated[
        float,
        typer.Option(min=0, max=_DAY_S, help="Seconds after the input, for the reply to end."),
    ] = 0.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object as the last line.")
    ] = False,
) -> None:
    """Talk to the agent with a recording.

    The input is what a caller says, as in a call: the agent hears it as it goes and answers over
    it. So the output starts when the input starts and is exactly as long; silences asked for count
    as input.

    Example: rtc-agent offline --input question.wav --output reply.wav --text reply.json
    --trailing-silence 5
    """
    from rtc_agent.cli.output import json_refusal, print_json
    from rtc_agent.config import load
    from rtc_agent.engine.agents import create_stepper
    from rtc_agent.engine.stages.settings import read_stages
    from rtc_agent.engine.stepper import FRAME_SAMPLES, SamplingSpec, SessionSpec
    from rtc_agent.offline import Silence, run_offline
    from rtc_agent.wav import WavReader, WavWriter, require_samples

    silence = Silence(leading_silence, trailing_silence)
    sampling = SamplingSpec(greedy=greedy, seed=seed)
    started_s = time.monotonic()
    with (
        json_refusal(as_json),
        WavReader(input) as reader,
        _TextFile(text, apart_from=(input, output)) as text_file,
        WavWriter(output) as writer,
    ):
        settings = load(
            agent=agent,
            model=model,
            device=device,
            dtype=dtype,
            stages=None if stages is None else read_stages(stages),
            sessions=1,
            banks=1,
        )
        heard = require_samples(reader.frames(), input)
        choice = create_stepper(settings, lambda line: typer.echo(line, err=True), live=False)
        if choice.notice:
            typer.echo(choice.notice, err=True)
        stepper = choice.stepper
        frames = (
            silence.leading_frames
            + ((reader.expected_samples or 0) + silence.trailing_samples) // FRAME_SAMPLES
            + 1
        )
        try:
            with typer.progressbar(
                length=frames,
                label=f"talking to {stepper.info.agent}",
                file=typer.get_text_stream("stderr"),
            ) as bar:
                result = run_offline(
                    stepper,
                    heard,
                    lambda: reader.samples,
                    writer.write,
                    SessionSpec(voice=voice, persona=persona, sampling=sampling),
                    silence,
                    on_frame=lambda: bar.update(1),
                )
        finally:
            stepper.shutdown()
        fields = {"agent": stepper.info.agent, **result.as_json()}
        text_file.write(fields)
    if result.reply_cut:
        typer.echo(
            "The agent was still speaking when the input ended; "
            f"--trailing-silence {trailing_silence + 10:g} gives it longer.",
            err=True,
        )
    if as_json:
        del fields["events"]
        wall_s = round(time.monotonic() - started_s, 3)
        print_json({"ok": True, **fields, "output": str(output), "wall_s": wall_s})
    else:
        typer.echo(result.text.strip())


class _TextFile:
    """The text's file, opened before the run, which may be long; a context manager.

    It appears under its name once it is whole.

    Raises:
        BadAudioFile: it cannot be written, or it is one of the recordings.
    """

    def __init__(self, path: Path | None, apart_from: tuple[Path, ...]) -> None:
        self._path = path
        self._part: Path | None = None
        if path is None:
            return
        if path.resolve() in [other.resolve() for other in apart_from]:
            raise _unwritable(path, "a recording has that name")
        if path.is_dir():
            raise _unwritable(path, "it is a folder")
        self._part = path.with_name(path.name + ".part")
        try:
            self._part.touch()
        except OSError as error:
            raise _unwritable(path, error.strerror) from error

    def write(self, fields: dict[str, object]) -> None:
        if self._path is None or self._part is None:
            return
        try:
            text = json.dumps(fields, ensure_ascii=False, indent=1) + "\n"
            self._part.write_text(text, encoding="utf-8")
            self._part.replace(self._path)
        except OSError as error:
            raise _unwritable(self._path, error.strerror) from error

    def __enter__(self) -> _TextFile:
        return self

    def __exit__(self, *error: object) -> None:
        if self._part is not None:
            self._part.unlink(missing_ok=True)


def _unwritable(path: Path, why: str | None) -> RtcAgentError:
    from rtc_agent.errors import BadAudioFile

    return BadAudioFile(f"{path} cannot be written: {why}.")
