"""What every test against the real gateway needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.signal import resample_poly

from tests.telephony.gateway import require_parts
from tests.telephony.phones import Samples, read_wav

SPEECH = Path(__file__).parent.parent / "data" / "speech.wav"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("telephony") is not None:
        require_parts()


@pytest.fixture(scope="session")
def speech() -> tuple[Samples, int]:
    """A few seconds of speech and their rate."""
    return read_wav(SPEECH)


def at_rate(speech: tuple[Samples, int], rate: int) -> Samples:
    """The same speech at another rate."""
    samples, original = speech
    divisor = int(np.gcd(rate, original))
    return np.asarray(resample_poly(samples, rate // divisor, original // divisor))
