from __future__ import annotations

import json
import shlex
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.cli.command import Run, runner

SPEECH = Path(__file__).parents[1] / "data" / "speech.wav"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


def length(path: str) -> int:
    with wave.open(path) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        return file.getnframes()


def test_the_example_of_the_help(run: Run) -> None:
    """What `--help` shows can be typed as it stands."""
    shutil.copy(SPEECH, "question.wav")
    text = " ".join(run("offline", "--help").out.split())
    example = text.partition("Example: rtc-agent ")[2].partition(" Options:")[0]
    outcome = run(*shlex.split(example), "--agent", "echo")
    assert outcome.status == 0, outcome
    assert length("reply.wav") == length("question.wav") + 5 * 24_000
    said = json.loads(Path("reply.json").read_text())
    assert said["text"].strip() == outcome.out.strip()


def test_output_is_as_long_as_the_input(run: Run) -> None:
    rng = np.random.default_rng(0)
    sound = (rng.standard_normal(10_001) * 3000).astype(np.int16)
    soundfile.write("in.wav", sound, 24_000)
    outcome = run(
        "offline", "--input", "in.wav", "--output", "out.wav", "--agent", "echo", "--json"
    )
    assert outcome.result["ok"] and outcome.result["frames"] == 6
    assert outcome.result["duration_s"] == pytest.approx(10_001 / 24_000, abs=1e-3)
    assert length("out.wav") == 10_001
    heard = soundfile.read("out.wav", dtype="int16")[0]
    np.testing.assert_array_equal(heard, sound)


@pytest.mark.parametrize(
    ("rate", "channels", "encoding", "samples"),
    [
        (8_000, 1, "ULAW", 8_000),
        (44_100, 2, "PCM_24", 44_100),
        (24_000, 1, "FLOAT", 1),
    ],
)
def test_whatever_wav_a_person_has(
    run: Run, rate: int, channels: int, encoding: str, samples: int
) -> None:
    soundfile.write("in.wav", np.zeros((samples, channels)), rate, subtype=encoding)
    outcome = run(
        "offline", "--input=in.wav", "--output=out.wav", "--text=out.json", "--agent=echo"
    )
    assert outcome.status == 0, outcome
    assert length("out.wav") == round(samples * 24_000 / rate)
    assert json.loads(Path("out.json").read_text())["reply_cut"] is False


def test_a_file_without_samples_is_refused(run: Run) -> None:
    soundfile.write("in.wav", np.zeros((0, 1)), 48_000)
    outcome = run("offline", "--input=in.wav", "--output=out.wav", "--agent=echo")
    assert outcome.status == 2 and "in.wav holds no samples" in outcome.err
    assert not Path("out.wav").exists()


def test_says_how_to_hear_the_end_of_a_reply(run: Run) -> None:
    asked = ("offline", "--input", SPEECH, "--output", "out.wav", "--agent", "echo", "--json")
    cut = run(*asked)
    assert cut.result["reply_cut"] is True and "--trailing-silence 10" in cut.err
    whole = run(*asked, "--trailing-silence", 10)
    assert whole.result["reply_cut"] is False and "--trailing-silence" not in whole.err
    assert whole.result["duration_s"] == pytest.approx(cut.result["duration_s"] + 10)


def test_leading_silence_delays_the_caller(run: Run) -> None:
    run("offline", "--input", SPEECH, "--output", "at_once.wav", "--agent", "echo")
    run("offline", "--input", SPEECH, "--output", "later.wav", "--agent", "echo",
        "--leading-silence", 0.8)  # fmt: skip
    at_once, later = (soundfile.read(f, dtype="int16")[0] for f in ("at_once.wav", "later.wav"))
    assert not later[: 10 * 1920].any()
    np.testing.assert_array_equal(later[10 * 1920 :], at_once)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "none.wav", "--output", "out.wav"), "There is no file none.wav"),
        (("--input", "notes.txt", "--output", "out.wav"), "notes.txt is not a WAV file"),
        (("--input", SPEECH, "--output", "no/out.wav"), "no/out.wav cannot be written"),
        (("--input", SPEECH, "--output", "out.wav", "--text", "no/t.json"), "no/t.json cannot be"),
        (("--input", SPEECH, "--output", "out.wav", "--text", "."), "it is a folder"),
        (("--input", SPEECH, "--output", "out.wav", "--text", "out.wav"), "has that name"),
        (("--input", SPEECH, "--output", "out.wav", "--voice", "NATF0"), "voice"),
        (("--input", SPEECH, "--output", "out.wav", "--persona", "Ana"), "persona"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(
    run: Run, tmp_path: Path, arguments: tuple[object, ...], message: str
) -> None:
    Path("notes.txt").write_text("hello")
    outcome = run("offline", *arguments, "--agent", "echo", "--json")
    assert message in outcome.refusal
    assert outcome.result["ok"] is False and message in outcome.result["error"]["message"]
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_wrong_arguments_are_usage_errors(run: Run) -> None:
    files = ("--input", SPEECH, "--output", "out.wav")
    for arguments in (
        *((), ("--input", SPEECH), ("--bogus",), (*files, "--seed", "x")),
        *((*files, "--trailing-silence", "inf"), (*files, "--leading-silence", "1e300")),
    ):
        outcome = run("offline", *arguments)
        assert outcome.status == 2 and "Traceback" not in outcome.err
