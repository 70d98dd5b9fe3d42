from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.audio import save_wav, speech


@pytest.fixture
def speech_wav(tmp_path: Path) -> Path:
    return save_wav(tmp_path / "speech.wav", speech(1.8))
