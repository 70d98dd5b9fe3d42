"""Gnuspeech, an articulatory synthesiser, through Node.js: the callers that cannot travel."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from rtc_agent.errors import RtcAgentError
from rtc_agent.training.data.batch import Utterance
from rtc_agent.training.data.synthesis.callers import draw_text
from rtc_agent.training.data.synthesis.shaping import to_24k, to_peak, trim

_SCRIPT = Path(__file__).with_suffix(".mjs")
_VOICES = ("male", "female", "large_child", "small_child")
_AT_ONCE = 100
_SHORTEST = 1_500


def speak_gnuspeech(package: Path, count: int, seed: int) -> Iterator[Utterance]:
    """Speak callers' texts.

    Args:
        package: folder of the npm package `@echogarden/gnuspeech-wasm`, its dependency beside it.

    Raises:
        RtcAgentError: Node.js or the package fails.
    """
    rng = np.random.default_rng(seed)
    for at in range(0, count, _AT_ONCE):
        yield from _speak(package, min(_AT_ONCE, count - at), rng)


def _speak(package: Path, count: int, rng: np.random.Generator) -> Iterator[Utterance]:
    texts = [draw_text(rng) for _ in range(count)]
    requests = [
        {"text": text, "voice": _VOICES[int(rng.integers(len(_VOICES)))], "tempo": tempo}
        for (text, _), tempo in zip(texts, rng.uniform(0.85, 1.35, count), strict=True)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = folder / "requests.json"
        asked.write_text(json.dumps(requests))
        command = ["node", str(_SCRIPT), str(package), str(asked), name]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise RtcAgentError("Gnuspeech needs Node.js, and there is none") from error
        except subprocess.CalledProcessError as error:
            raise RtcAgentError(f"Gnuspeech failed: {error.stderr[-400:]}") from error
        for i, ((text, intent), request) in enumerate(zip(texts, requests, strict=True)):
            raw, rate = soundfile.read(folder / f"{i}.wav", dtype="float32", always_2d=True)
            formants = float(np.exp(rng.normal(0, 0.09)))
            samples = to_peak(trim(to_24k(raw[:, 0], rate, formants)))
            if len(samples) >= _SHORTEST:
                yield Utterance(samples, text, intent, f"gnuspeech:{request['voice']}")
