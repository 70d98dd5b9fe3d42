"""`rtc-agent offline`: a WAV in, the agent's WAV and text out, without a server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer


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
    agent: Annotated[
        str | None,
        typer.Option(help="auto, echo, demo, tiny, personaplex or moshi.", show_default="auto"),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Folder of the model's files.")] = None,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda, cuda:1 …", show_default="auto")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="auto, float32, bfloat16 or float16; for weights, keys and values.",
            show_default="auto",
        ),
    ] = None,
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
        float, typer.Option(min=0, help="Seconds before the input, for an agent that greets.")
    ] = 0.0,
    trailing_silence: Annotated[
        float, typer.Option(min=0, help="Seconds after the input, for the reply to end.")
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
    from rtc_agent.engine.stepper import FRAME_SAMPLES, SamplingSpec, SessionSpec
    from rtc_agent.errors import BadAudioFile
    from rtc_agent.offline import Silence, run_offline
    from rtc_agent.wav import WavReader, WavWriter

    silence = Silence(leading_silence, trailing_silence)
    sampling = SamplingSpec(greedy=greedy, seed=seed)
    started_s = time.monotonic()
    with json_refusal(as_json), WavReader(input) as reader, WavWriter(output) as writer:
        if text is not None and not text.parent.is_dir():
            raise BadAudioFile(f"{text} cannot be written: there is no folder {text.parent}.")
        settings = load(agent=agent, model=model, device=device, dtype=dtype, sessions=1)
        choice = create_stepper(settings, report=lambda line: typer.echo(line, err=True))
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
                    reader.frames(),
                    lambda: reader.samples,
                    writer.write,
                    SessionSpec(voice=voice, persona=persona, sampling=sampling),
                    silence,
                    on_frame=lambda: bar.update(1),
                )
        finally:
            stepper.shutdown()
        fields = {"agent": stepper.info.agent, **result.as_json()}
        if text is not None:
            _write_json(text, fields)
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


def _write_json(path: Path, fields: dict[str, object]) -> None:
    import json

    from rtc_agent.errors import BadAudioFile

    try:
        path.write_text(json.dumps(fields, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadAudioFile(f"{path} cannot be written: {error.strerror}.") from error
