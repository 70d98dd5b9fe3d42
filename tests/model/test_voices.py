from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyloudnorm
import pytest
import soundfile
import torch
from torch import Tensor

from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm
from rtc_agent.errors import BadAudioFile, CheckpointError, InvalidRequest, UnknownVoice
from rtc_agent.model.prompts import VoiceBundle, VoiceClip, VoiceCodes, plan_prompt
from rtc_agent.model.spec import LmSpec, ModelSpec
from rtc_agent.model.voice_clip import MAX_SECONDS, normalise_loudness
from rtc_agent.model.voice_file import bundle_from_codes
from rtc_agent.model.voices import VoiceLibrary

SPEC = replace(ModelSpec(), lm=replace(LmSpec(), dim=32, text_card=400))
RECORDED = json.loads((Path(__file__).parents[1] / "data" / "voice_bundle.json").read_text())
"""A clip's codes, and the cache that the reference saved for it."""


def speechlike(seconds: float, gain: float = 0.3) -> Pcm:
    """Noise in syllables, so that the loudness gate has something to gate."""
    samples = round(seconds * 24_000)
    rng = np.random.default_rng(0)
    syllables = np.sin(np.arange(samples) / 24_000 * 2 * np.pi * 3).clip(0)
    return (gain * syllables * rng.standard_normal(samples)).astype(np.float32).clip(-1, 1)


def saved_pt(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def voice_pt(frames: int = 5, dim: int = 32, **more: object) -> bytes:
    saved = {
        "embeddings": torch.arange(frames * dim, dtype=torch.bfloat16).view(frames, 1, 1, dim),
        "cache": torch.full((1, 17, 4), 7),
    }
    return saved_pt(saved | more)


def archive(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def embed(columns: Tensor) -> Tensor:
    """Inputs that tell which column they come from."""
    return columns.to(torch.float32).sum(-1, keepdim=True).repeat(1, 32)


def encode(clip: VoiceClip) -> VoiceCodes:
    """Codes that tell how many frames there were."""
    return VoiceCodes(torch.arange(len(clip.frames))[:, None].repeat(1, 8))


def test_released_archive_is_read_in_place(tmp_path: Path) -> None:
    archive(tmp_path / "voices.tgz", {f"voices/{n}.pt": voice_pt() for n in ("VARM0", "NATF2")})
    library = VoiceLibrary(tmp_path, SPEC)
    assert library.names == ("NATF2", "VARM0")
    assert library.default == "NATF2"
    voice = library.load("VARM0")
    assert isinstance(voice, VoiceBundle)
    assert voice.embeddings.shape == (5, 32) and voice.cache.shape == (17, 4)
    assert voice.cache.dtype == torch.int64
    assert [path.name for path in tmp_path.iterdir()] == ["voices.tgz"]
    plan_prompt(SPEC, voice, [])


def test_hostile_members_are_not_voices(tmp_path: Path) -> None:
    members = dict.fromkeys(
        ("../NATF0.pt", "/etc/NATF1.pt", "voices/../NATF2.pt", "voices/a/b.pt", "voices/.pt"),
        voice_pt(),
    )
    archive(tmp_path / "voices.tgz", members | {"voices/GOOD.pt": voice_pt()})
    with tarfile.open(tmp_path / "more.tgz", "w:gz") as tar:
        link = tarfile.TarInfo("voices/LINK.pt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    assert VoiceLibrary(tmp_path, SPEC).names == ("GOOD",)
    (tmp_path / "more.tgz").rename(tmp_path / "voices.tgz")
    assert VoiceLibrary(tmp_path, SPEC).names == ()


def test_files_come_before_the_archive(tmp_path: Path) -> None:
    archive(tmp_path / "voices.tgz", {"voices/A.pt": voice_pt(5), "voices/B.pt": voice_pt(5)})
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "A.pt").write_bytes(voice_pt(6))
    soundfile.write(tmp_path / "voices" / "A.wav", speechlike(1), 24_000)
    soundfile.write(tmp_path / "voices" / "C.wav", speechlike(1), 24_000)
    (tmp_path / "voices" / "notes.txt").write_text("not a voice")
    library = VoiceLibrary(tmp_path, SPEC)
    assert library.names == ("A", "B", "C") and library.default == "A"
    a, c = library.load("A"), library.load("C")
    assert isinstance(a, VoiceBundle) and len(a.embeddings) == 6
    assert isinstance(c, VoiceClip) and c.frames.shape == (13, FRAME_SAMPLES)


def test_no_voices(tmp_path: Path) -> None:
    library = VoiceLibrary(tmp_path, SPEC)
    assert library.names == () and library.default is None
    with pytest.raises(UnknownVoice, match="there is none"):
        library.load("NATF0")


@pytest.mark.parametrize("name", ["B", "../voices/A", "A.pt", "", "/etc/passwd", "a" * 10_000])
def test_unknown_voice_lists_what_there_is(tmp_path: Path, name: str) -> None:
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "A.pt").write_bytes(voice_pt())
    with pytest.raises(UnknownVoice, match="there are A") as caught:
        VoiceLibrary(tmp_path, SPEC).load(name)
    assert caught.value.http_status == 400 and len(caught.value.message) < 200


class Evil:
    """What a pickle runs when it is loaded without care."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("owned"),)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a voice file"),
        (b"PK\x03\x04 torn", "is not a voice file"),
        (voice_pt()[:-200], "is not a voice file"),
        (voice_pt(evil=Evil()), "is not a voice file"),
        (json.dumps({"embeddings": 1}).encode(), "is not a voice file"),
        (saved_pt([1, 2]), "is not a voice file"),
        (voice_pt(embeddings=[1, 2]), "not tensors"),
        (voice_pt(dim=64), r"embeddings \[5, 1, 1, 64\].*\[frames, 1, 1, 32\]"),
        (voice_pt(cache=torch.zeros(1, 9, 4)), r"cache \[1, 9, 4\]"),
        (voice_pt(cache=torch.full((1, 17, 4), 401)), "does not have"),
        (voice_pt(embeddings=torch.full((2, 1, 1, 32), torch.nan)), "does not have"),
        (voice_pt(codes=torch.zeros(6, 9, dtype=torch.int64)), r"codes than \[6, 8\]"),
        (voice_pt(codes=torch.zeros(7, 8, dtype=torch.int64)), r"codes than \[6, 8\]"),
        (voice_pt(codes=torch.zeros(6, 8)), "codes than"),
        (voice_pt(codes=[1, 2]), "codes than"),
        (voice_pt(codes=torch.full((6, 8), -1)), "does not have"),
        (voice_pt(codes=torch.full((6, 8), 40_000)), "does not have"),
    ],
)
def test_damaged_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "A.pt").write_bytes(content)
    library = VoiceLibrary(tmp_path, replace(SPEC, lm=replace(SPEC.lm, card=300)))
    with pytest.raises(CheckpointError, match=message) as caught:
        library.load("A")
    assert "A.pt" in caught.value.message
    assert not Path("owned").exists()


def test_damaged_archive(tmp_path: Path) -> None:
    archive(tmp_path / "voices.tgz", {"voices/A.pt": voice_pt()})
    whole = (tmp_path / "voices.tgz").read_bytes()
    for torn in (b"not an archive", whole[: len(whole) // 2]):
        (tmp_path / "voices.tgz").write_bytes(torn)
        with pytest.raises(CheckpointError, match="damaged.*fetch it again"):
            VoiceLibrary(tmp_path, SPEC)


@pytest.mark.parametrize("gain", [0.01, 0.3, 0.9])
def test_clips_are_brought_to_one_loudness(gain: float) -> None:
    pcm = normalise_loudness(speechlike(2.01, gain))
    assert pcm.dtype == np.float32
    loudness = pyloudnorm.Meter(24_000).integrated_loudness(pcm.astype(np.float64))
    assert loudness == pytest.approx(-24.0, abs=1e-3)


def test_clip_is_padded_after_its_loudness_is_set(tmp_path: Path) -> None:
    (tmp_path / "voices").mkdir()
    pcm = speechlike(1.01)
    soundfile.write(tmp_path / "voices" / "A.wav", pcm, 24_000, subtype="FLOAT")
    clip = VoiceLibrary(tmp_path, SPEC).load("A")
    assert isinstance(clip, VoiceClip)
    flat = clip.frames.flatten().numpy()
    np.testing.assert_array_equal(flat[: len(pcm)], normalise_loudness(pcm))
    assert len(flat) == 13 * FRAME_SAMPLES and not flat[len(pcm) :].any()


@pytest.mark.parametrize(
    ("pcm", "message"),
    [
        (np.zeros(24_000, np.float32), "silent"),
        (speechlike(0.39), "0.39 s long"),
        (np.zeros(0, np.float32), "0.00 s long"),
        (np.zeros(round((MAX_SECONDS + 1) * 24_000), np.float32), "longer than the 60 s"),
    ],
)
def test_clips_without_a_voice_are_refused(tmp_path: Path, pcm: Pcm, message: str) -> None:
    (tmp_path / "voices").mkdir()
    soundfile.write(tmp_path / "voices" / "A.wav", pcm, 24_000)
    with pytest.raises(BadAudioFile, match=message):
        VoiceLibrary(tmp_path, SPEC).load("A")


def test_bundle_is_what_the_reference_saves() -> None:
    codes = torch.tensor(RECORDED["codes"])
    bundle = bundle_from_codes(SPEC, codes, embed)
    assert bundle.cache.tolist() == RECORDED["cache"]
    assert len(bundle.embeddings) == len(codes) - 1


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5, 9])
def test_bundle_and_codes_make_one_prompt(frames: int) -> None:
    codes = torch.tensor(RECORDED["codes"])[:frames]
    by_codes = plan_prompt(SPEC, VoiceCodes(codes), [5, 6])
    by_bundle = plan_prompt(SPEC, bundle_from_codes(SPEC, codes, embed), [5, 6])
    assert by_bundle.embeddings is not None and by_bundle.length == by_codes.length
    inputs = torch.cat((by_bundle.embeddings, embed(by_bundle.columns)))
    torch.testing.assert_close(inputs, embed(by_codes.columns), rtol=0, atol=0)
    assert by_bundle.columns.tolist() == by_codes.columns[frames - 1 :].tolist()
    assert by_bundle.pending.tolist() == by_codes.pending.tolist()


def test_added_voice_is_there_at_once_and_later(tmp_path: Path) -> None:
    clip = tmp_path / "clip.wav"
    soundfile.write(clip, speechlike(1.0), 24_000)
    library = VoiceLibrary(tmp_path, SPEC)
    path = library.add("Ana", clip, encode, embed)
    assert path == tmp_path / "voices" / "Ana.pt"
    for there in (library, VoiceLibrary(tmp_path, SPEC)):
        voice = there.load("Ana")
        assert isinstance(voice, VoiceCodes)
        assert voice.codes.tolist() == [[frame] * 8 for frame in range(13)]
    # The reference takes these two and looks at nothing else.
    saved = torch.load(path, weights_only=True)
    assert saved["embeddings"].shape == (12, 1, 1, 32) and saved["cache"].shape == (1, 17, 4)
    with pytest.raises(InvalidRequest, match="already"):
        library.add("Ana", clip, encode, embed)
    library.add("Ana", clip, encode, embed, replace=True)
    kept = sorted(p.name for p in (tmp_path / "voices").iterdir())
    assert kept == ["Ana.pt", "Ana.sample.wav"]
    assert VoiceLibrary(tmp_path, SPEC).names == ("Ana",), "a sample is no voice"


def test_a_sample_is_the_first_seconds_of_what_is_heard(tmp_path: Path) -> None:
    clip = tmp_path / "voices" / "Ben.wav"
    clip.parent.mkdir()
    spoken = np.concatenate([np.zeros(24_000, np.float32), speechlike(6.0)])
    soundfile.write(clip, spoken, 24_000)
    library = VoiceLibrary(tmp_path, SPEC)
    assert library.samples == {}
    recording = library.recording("Ben")
    assert recording is not None
    path = library.keep_sample("Ben", recording)
    assert library.samples == {"Ben": str(path)} and library.names == ("Ben",)
    sample, rate = soundfile.read(path)
    assert rate == 24_000 and len(sample) == 4 * 24_000
    assert np.abs(sample[:4_800]).max() > 0.01, "it begins where the voice does"
    assert np.abs(sample[-24:]).max() < 0.01, "and fades out"
    with pytest.raises(BadAudioFile, match="nothing to hear"):
        library.keep_sample("Ben", np.zeros(48_000, np.float32))
    with pytest.raises(UnknownVoice):
        library.keep_sample("../Ben", recording)


def test_a_voice_that_cannot_be_kept_is_a_refusal(tmp_path: Path) -> None:
    clip = tmp_path / "clip.wav"
    soundfile.write(clip, speechlike(1.0), 24_000)
    (tmp_path / "voices").write_text("a file where the folder should be")
    with pytest.raises(CheckpointError, match=r"Ana\.pt cannot be written"):
        VoiceLibrary(tmp_path, SPEC).add("Ana", clip, encode, embed)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b", "x" * 65, "é"])
def test_added_voice_needs_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot name a voice"):
        VoiceLibrary(tmp_path, SPEC).add(name, tmp_path / "clip.wav", encode, embed)
    assert list(tmp_path.iterdir()) == []
