"""Every codec there and back; payloads nobody should send."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media import libopus, opus
from rtc_agent.media.codecs import CODECS, PACKET_SAMPLES, AudioDecoder, decoder_for, encoder_for
from rtc_agent.media.opus import CodecError, PyavOpusDecoder, PyavOpusEncoder, opus_duration
from tests.media.simulation import delay_of, noise, read_speech, similarity

NAMES = ["opus", "G722", "PCMU", "PCMA"]


def payloads(pcm: Pcm, name: str) -> list[bytes]:
    encoder = encoder_for(name)
    return [encoder.encode(pcm[i : i + 480]) for i in range(0, len(pcm) - 479, 480)]


@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(name: str) -> None:
    source = read_speech()
    sent = payloads(source, name)
    decoder = decoder_for(name)
    heard = np.concatenate([decoder.decode(p) for p in sent])
    assert len(heard) == len(source)
    delay = delay_of(heard, source, 40_000)
    assert delay <= 160
    assert similarity(heard, source, delay) > 0.97
    assert all(CODECS[name.lower()].duration(p) == PACKET_SAMPLES for p in sent)


@pytest.mark.parametrize("name", ["PCMU", "PCMA", "G722"])
def test_telephone_payloads_have_their_size(name: str) -> None:
    assert {len(p) for p in payloads(noise(0.5), name)} == {160}


@pytest.mark.parametrize("name", ["PCMU", "PCMA"])
def test_a_sweep_through_the_telephone_codec(name: str) -> None:
    """Within 1 dB to 3.3 kHz, no image above −40 dB up to the edge of the band."""
    for hz in (101, 397, 997, 1_993, 2_999, 3_299, 3_499, 3_697):
        t = np.arange(int(1.2 * SAMPLE_RATE)) / SAMPLE_RATE
        source = (0.5 * np.sin(2 * np.pi * hz * t)).astype(np.float32)
        decoder = decoder_for(name)
        heard = np.concatenate([decoder.decode(p) for p in payloads(source, name)])
        piece = heard[2_400 : 2_400 + SAMPLE_RATE]
        window = np.blackman(len(piece))
        level = 20 * np.log10(np.abs(np.fft.rfft(piece * window)) / window.sum() * 4 + 1e-9)
        freqs = np.fft.rfftfreq(len(piece), 1 / SAMPLE_RATE)
        near = np.abs(freqs - hz) < 15
        if hz <= 3_300:
            assert abs(level[near].max()) < 1
        assert level[freqs > 4_000].max() < -40
        # What is left inside the band is the quantisation of the codec itself.
        assert level[~near].max() < -36


def test_opus_bitrate_is_that_of_speech() -> None:
    source = read_speech()
    for bitrate, low, high in ((None, 15_000, 40_000), (16_000, 8_000, 20_000)):
        encoder = encoder_for("opus", bitrate=bitrate)
        size = sum(len(encoder.encode(source[i : i + 480])) for i in range(0, len(source), 480))
        assert low < size * 8 / (len(source) / SAMPLE_RATE) < high


def test_stereo_and_every_packet_length_decode_to_mono() -> None:
    import av

    for milliseconds in (5, 10, 20, 40, 60):
        codec = av.CodecContext.create("libopus", "w")
        codec.sample_rate, codec.layout, codec.format = 48_000, "stereo", "flt"
        codec.options = {"frame_duration": str(milliseconds), "application": "audio"}
        samples = 48 * milliseconds
        t = np.arange(samples * 20) / 48_000
        left = 0.4 * np.sin(2 * np.pi * 440 * t)
        decoder = decoder_for("opus")
        heard = []
        for i in range(20):
            piece = left[i * samples : (i + 1) * samples].astype(np.float32)
            frame = av.AudioFrame.from_ndarray(
                np.stack([piece, piece], 1).reshape(1, -1), format="flt", layout="stereo"
            )
            frame.sample_rate, frame.pts = 48_000, i * samples
            for packet in codec.encode(frame):
                payload = bytes(packet)
                assert opus_duration(payload) == samples // 2
                heard.append(decoder.decode(payload))
        pcm = np.concatenate(heard)[-samples * 4 :]
        assert np.abs(pcm).max() == pytest.approx(0.4, abs=0.08)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_garbage_never_breaks_a_decoder(payload: bytes) -> None:
    duration = opus_duration(payload)
    assert 0 <= duration <= libopus.MAX_PACKET_SAMPLES
    decoder = decoder_for("opus")
    try:
        pcm = decoder.decode(payload)
        assert np.isfinite(pcm).all()
    except CodecError:
        pass
    assert len(decoder.decode(payloads(noise(0.02), "opus")[0])) == 480


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_payload_does_not_end_a_decoder(name: str) -> None:
    good = payloads(noise(0.1), name)
    decoder = decoder_for(name)
    decoder.decode(good[0])
    assert CODECS[name.lower()].duration(b"") == 0
    if name != "opus":
        with pytest.raises(CodecError):
            decoder.decode(b"")
    assert len(decoder.decode(good[1])) == 480


@pytest.mark.parametrize("name", NAMES)
def test_concealment_continues_then_fades(name: str) -> None:
    t = np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    source = (0.3 * np.sin(2 * np.pi * 200 * t)).astype(np.float32)
    decoder = decoder_for(name)
    for payload in payloads(source, name):
        last = decoder.decode(payload)
    first = decoder.conceal(480)
    assert np.sqrt(np.mean(first**2)) > 0.3 * np.sqrt(np.mean(last**2))
    assert np.abs(np.diff(np.concatenate([last[-50:], first[:50]]))).max() < 0.1
    for _ in range(30):
        tail = decoder.conceal(480)
    assert np.sqrt(np.mean(tail**2)) < 0.02
    assert decoder.conceal(100).shape == (100,)


def test_without_libopus_the_fallback_is_named_and_works(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(libopus, "_candidates", lambda: ["/nonexistent/libopus.so"])
    libopus.load.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            encoder, decoder = opus.open_encoder(), opus.open_decoder()
            opus.open_decoder()
        assert isinstance(encoder, PyavOpusEncoder) and isinstance(decoder, PyavOpusDecoder)
        assert [r.message for r in caplog.records if "libopus" in r.message][1:] == []
        source = read_speech()
        heard = [decoder.decode(encoder.encode(source[i : i + 480])) for i in range(0, 48_000, 480)]
        pcm = np.concatenate(heard)
        assert len(pcm) == 48_000
        assert similarity(pcm, source, delay_of(pcm, source, 30_000)) > 0.95
        stand_in: AudioDecoder = decoder
        assert stand_in.recover(b"", 480) is None
        assert len(stand_in.conceal(480)) == 480
        encoder.expect_loss(20)
    finally:
        libopus.load.cache_clear()


def test_only_redundancy_that_is_there_is_used() -> None:
    source = read_speech()[24_000:72_000]
    library = libopus.load()
    assert library is not None
    for loss, expected in ((0, False), (20, True)):
        encoder = libopus.LibopusEncoder(
            library, bitrate=32_000, complexity=5, expected_loss_percent=loss
        )
        sent = [encoder.encode(source[i : i + 480]) for i in range(0, len(source), 480)]
        decoder = decoder_for("opus")
        for payload in sent[:40]:
            decoder.decode(payload)
        found = [decoder.recover(payload, 480) is not None for payload in sent[41:]]
        assert any(found) == expected
    assert decoder_for("opus").recover(sent[50], 477) is None
