"""Festival's voices through its program: the synthesiser that training never hears."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import soundfile

from rtc_agent.errors import RtcAgentError
from rtc_agent.training.data.batch import Samples
from rtc_agent.training.data.synthesis.shaping import to_24k, to_peak, trim

VOICES = {
    "ked": "voice_ked_diphone",
    "kal": "voice_kal_diphone",
    "slt-hts": "voice_cmu_us_slt_arctic_hts",
}
"""Debian packages festvox-kdlpc16k, festvox-kallpc16k and festvox-us-slt-hts."""


def speak_festival(text: str, voice: str) -> Samples:
    """Speak a text.

    Raises:
        RtcAgentError: Festival or the voice is missing.
    """
    with tempfile.NamedTemporaryFile(suffix=".wav") as out:
        command = ["text2wave", "-eval", f"({VOICES[voice]})", "-o", out.name]
        try:
            subprocess.run(command, input=text, check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise RtcAgentError("Festival is missing; Debian has festival") from error
        except subprocess.CalledProcessError as error:
            raise RtcAgentError(f"Festival failed: {error.stderr[-400:]}") from error
        raw, rate = soundfile.read(Path(out.name), dtype="float32")
    return to_peak(trim(to_24k(raw, rate)))
