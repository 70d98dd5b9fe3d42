from __future__ import annotations

import struct
import tracemalloc
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm
from rtc_agent.errors import BadAudioFile
from rtc_agent.wav import WavReader, WavWriter, read_wav


def sine(samples: int, rate: int, channels: int = 1) -> Pcm:
    """300 Hz at half scale, [samples, channels]."""
    wave_ = 0.5 * np.sin(2 * np.pi * 300 * np.arange(samples) / rate)
    return np.tile(wave_[:, None], (1, channels)).astype(np.float32)


def chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def pcm16_format(rate: int = 24_000) -> bytes:
    return chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16))


SAMPLES = np.array([1, -2, 3, 32767, -32768], "<i2")


@pytest.mark.parametrize(
    ("rate", "channels", "encoding", "tolerance"),
    [
        (8_000, 1, "ULAW", 0.02),
        (8_000, 2, "ALAW", 0.02),
        (44_100, 2, "PCM_24", 1e-4),
        (48_000, 1, "FLOAT", 1e-4),
        (96_000, 1, "DOUBLE", 1e-4),
        (24_000, 2, "PCM_32", 1e-6),
        (16_000, 1, "PCM_U8", 0.01),
        (22_050, 6, "PCM_16", 1e-3),
        (11_025, 8, "PCM_16", 1e-3),
        (44_100, 16, "PCM_16", 1e-3),
    ],
)
def test_reads_what_people_have(
    tmp_path: Path, rate: int, channels: int, encoding: str, tolerance: float
) -> None:
    path = tmp_path / "in.wav"
    length = rate + 1
    soundfile.write(path, sine(length, rate, channels), rate, subtype=encoding)
    with WavReader(path) as reader:
        expected = reader.expected_samples
        pcm = np.concatenate(list(reader.blocks()))
    assert len(pcm) == reader.samples == round(length * 24_000 / rate)
    assert expected is not None and abs(expected - len(pcm)) <= 1
    # The resampler's own edges aside, the sound is the same one, in time and in level.
    middle = slice(400, -400)
    np.testing.assert_allclose(pcm[middle], sine(len(pcm), 24_000)[middle, 0], atol=tolerance)


@settings(max_examples=25, deadline=None)
@given(
    rate=st.sampled_from([8_000, 11_025, 16_000, 24_000, 44_100, 48_000]),
    length=st.one_of(st.integers(0, 10), st.sampled_from([1919, 1920, 1921, 3841])),
)
def test_length_is_exact_and_frames_hold_every_sample(
    tmp_path_factory: pytest.TempPathFactory, rate: int, length: int
) -> None:
    path = tmp_path_factory.mktemp("wav") / "in.wav"
    soundfile.write(path, sine(length, rate), rate, subtype="PCM_16")
    with WavReader(path) as reader:
        frames = list(reader.frames())
    assert reader.samples == round(length * 24_000 / rate)
    assert all(frame.shape == (FRAME_SAMPLES,) for frame in frames)
    assert len(frames) == -(-reader.samples // FRAME_SAMPLES)
    joined = np.concatenate([*frames, np.zeros(0, np.float32)])
    assert not joined[reader.samples :].any()
    with WavReader(path) as again:
        blocks = [*again.blocks(), np.zeros(0, np.float32)]
    np.testing.assert_array_equal(joined[: reader.samples], np.concatenate(blocks))


def test_odd_and_unknown_chunks(tmp_path: Path) -> None:
    path = tmp_path / "in.wav"
    path.write_bytes(
        riff(
            chunk(b"JUNK", b"x" * 7),
            pcm16_format(),
            chunk(b"LIST", b"INFO" + b"y" * 9),
            chunk(b"data", SAMPLES.tobytes()),
            chunk(b"id3 ", b"z" * 13),
        )
    )
    np.testing.assert_array_equal(read_wav(path, 1), SAMPLES / np.float32(32768))


@pytest.mark.parametrize("length", [0, 0xFFFFFFFF, 10_000])
def test_header_that_was_never_finished(tmp_path: Path, length: int) -> None:
    """What programs leave that write into a pipe, or that were stopped."""
    path = tmp_path / "in.wav"
    head = b"RIFF" + struct.pack("<I", length) + b"WAVE" + pcm16_format()
    path.write_bytes(head + b"data" + struct.pack("<I", length) + SAMPLES.tobytes())
    np.testing.assert_array_equal(read_wav(path, 1), SAMPLES / np.float32(32768))


@pytest.mark.parametrize(
    "content",
    [
        riff(pcm16_format(), chunk(b"data", b"")),
        riff(pcm16_format()),
        # FFmpeg alone would play the tag behind the empty data.
        riff(pcm16_format(), chunk(b"data", b""), chunk(b"LIST", b"INFO" + b"y" * 400)),
    ],
    ids=["empty data", "no data", "empty data and a tag"],
)
def test_header_only_is_no_samples(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in.wav"
    path.write_bytes(content)
    with WavReader(path) as reader:
        assert reader.expected_samples == 0
        assert list(reader.frames()) == []
        assert reader.samples == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a WAV file"),
        (b"RIFF", "not a WAV file"),
        (b"ID3\x04" + b"\0" * 2000, "not a WAV file"),
        (b"RIFF\x24\0\0\0AVI LIST" + b"\0" * 100, "not a WAV file"),
        (riff(chunk(b"data", b"\0\0")), "damaged WAV file"),
        (riff(pcm16_format())[:25], "damaged WAV file"),
    ],
)
def test_anything_else_is_one_clear_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "in.wav"
    path.write_bytes(content)
    with pytest.raises(BadAudioFile, match=message) as caught:
        read_wav(path, 1)
    assert "\n" not in caught.value.message and str(path) in caught.value.message


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(BadAudioFile, match="There is no file"):
        read_wav(tmp_path / "none.wav", 1)
    with pytest.raises(BadAudioFile, match="cannot be read"):
        read_wav(tmp_path, 1)
    with pytest.raises(BadAudioFile, match="cannot be written"):
        WavWriter(tmp_path / "none" / "out.wav")


def test_what_is_not_a_number_becomes_silence(tmp_path: Path) -> None:
    path = tmp_path / "in.wav"
    wild = np.array([0.5, np.nan, np.inf, -np.inf, 3.0, -3.0], np.float32)
    soundfile.write(path, wild, 24_000, subtype="FLOAT")
    np.testing.assert_array_equal(read_wav(path, 1), np.float32([0.5, 0, 0, 0, 1, -1]))


def test_too_long_a_clip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.wav"
    soundfile.write(path, sine(24_001, 24_000), 24_000)
    with pytest.raises(BadAudioFile, match="longer than the 1 s"):
        read_wav(path, 1)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Twenty minutes are 115 MB as 24 kHz floats."""
    path, copy = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(path, np.zeros(20 * 60 * 8_000, np.float32), 8_000, subtype="ULAW")
    tracemalloc.start()
    try:
        with WavReader(path) as reader, WavWriter(copy) as writer:
            for frame in reader.frames():
                writer.write(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reader.samples == 20 * 60 * 24_000
    assert peak < 4_000_000


def test_sixteen_bit_samples_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    every = np.arange(-32768, 32768, dtype=np.int16)
    with WavWriter(path) as writer:
        writer.write(every.astype(np.float32) / 32768)
        writer.write(np.float32([2.0, -2.0]))
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        written = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    np.testing.assert_array_equal(written, [*every, 32767, -32768])


def test_a_failed_run_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), WavWriter(tmp_path / "out.wav") as writer:
        writer.write(np.zeros(1920, np.float32))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to_and_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Should this ever fail, it must not take the machine's device with it.
    monkeypatch.setattr(Path, "replace", lambda *_: pytest.fail("the device was replaced"))
    link = tmp_path / "nowhere.wav"
    link.symlink_to("/dev/null")
    for path in (link, Path("/dev/null")):
        with WavWriter(path) as writer:
            writer.write(np.zeros(100, np.float32))
        assert Path("/dev/null").is_char_device()
    assert link.is_symlink()


def test_a_linked_file_is_written_and_the_link_stays(tmp_path: Path) -> None:
    file, link = tmp_path / "real.wav", tmp_path / "link.wav"
    link.symlink_to(file)
    with WavWriter(link) as writer:
        writer.write(np.zeros(100, np.float32))
    assert link.is_symlink() and len(read_wav(file, 1)) == 100


def test_a_folder_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(BadAudioFile, match="directory"):
        WavWriter(tmp_path)
