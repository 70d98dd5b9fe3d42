"""A microphone for Chromium that says the test sentence."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from tests.web.page_driver import INSECURE_HOST

SPEECH = Path(__file__).parents[1] / "data" / "speech.wav"


def write_microphone(path: Path) -> Path:
    """The test sentence at 48 kHz, which Chromium's fake microphone wants; it loops."""
    with wave.open(str(SPEECH)) as source:
        assert (source.getframerate(), source.getnchannels()) == (24_000, 1)
        samples = np.frombuffer(source.readframes(source.getnframes()), np.int16)
    doubled = np.clip(resample_poly(samples.astype(np.float64), 2, 1), -32_768, 32_767)
    with wave.open(str(path), "wb") as target:
        target.setnchannels(1)
        target.setsampwidth(2)
        target.setframerate(48_000)
        target.writeframes(doubled.astype(np.int16).tobytes())
    return path


def browser_arguments(microphone: Path) -> list[str]:
    """Chromium's flags: that microphone, without a prompt, and calls over loopback."""
    return [
        "--no-sandbox",
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone}",
        "--allow-loopback-in-peer-connection",
        f"--host-resolver-rules=MAP {INSECURE_HOST} 127.0.0.1",
    ]
