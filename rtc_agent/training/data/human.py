"""Callers of flesh and blood: prompts that Allison Smith read for Asterisk (CC BY-SA 3.0).

For measuring alone: nothing is trained on them and they are not shipped. Sums are put together of
single words, the rest are whole prompts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.batch import Samples
from rtc_agent.training.data.synthesis.shaping import to_24k, to_peak, trim
from rtc_agent.training.data.texts.questions import NUMBERS

SOUNDS = Path("/usr/share/asterisk/sounds/en")
"""Where Debian's asterisk-core-sounds-en-g722 puts them."""
_RATE = 16_000
_PAUSE = np.zeros(1_440, np.float32)
"""60 ms between the words of a sum."""
_KNOWN = {
    "hello": "hello",
    "goodbye": "bye",
    "vm-goodbye": "bye",
    "sorry": "sorry",
    "im-sorry": "sorry",
}
_UNKNOWN = (
    *("vm-password", "please-try-again", "one-moment-please", "telephone-number", "conf-locked"),
    *("all-circuits-busy-now", "number-not-answering", "is-in-use", "location", "extension"),
    *("call-forwarding", "speed-dial", "queue-thankyou", "vm-incorrect", "do-not-disturb"),
    *("check-number-dial-again", "privacy-incorrect", "cannot-complete-as-dialed", "calling"),
    *("tt-weasels", "conf-onlyperson", "vm-nomore", "transfer", "auth-incorrect"),
    *("digits/day-1", "digits/day-5", "digits/mon-3", "digits/thousand", "digits/7", "digits/30"),
)


def known_clips(folder: Path = SOUNDS) -> Iterator[tuple[Samples, str, str]]:
    """Clips of the agent's domain: samples, what is said, its intent.

    Raises:
        ConfigError: a clip is missing.
    """
    for name, intent in _KNOWN.items():
        yield _clip(folder, name), name, intent
    plus = _clip(folder, "letters/plus")
    for a in range(1, 10):
        for b in range(1, 10):
            first, second = (_clip(folder, f"digits/{n}") for n in (a, b))
            samples = np.concatenate((first, _PAUSE, plus, _PAUSE, second))
            yield samples, f"{NUMBERS[a]} plus {NUMBERS[b]}", f"sum:{a}+{b}"


def unknown_clips(folder: Path = SOUNDS) -> Iterator[tuple[Samples, str]]:
    """Clips outside of it: samples and what is said.

    Raises:
        ConfigError: a clip is missing.
    """
    for name in _UNKNOWN:
        yield _clip(folder, name), name


@cache
def _clip(folder: Path, name: str) -> Samples:
    # Where training runs the clips are there already, and PyAV need not be.
    import av

    path = folder / f"{name}.g722"
    try:
        with av.open(str(path), format="g722") as container:
            frames = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error}); Debian has asterisk-core-sounds-en-g722"
        ) from error
    raw = np.concatenate(frames).astype(np.float32) / np.float32(32768)
    return to_peak(trim(to_24k(raw, _RATE)))
