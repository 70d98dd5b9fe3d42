from __future__ import annotations

import io

import av
import numpy as np
import pytest
import sphn
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.errors import InvalidRequest
from rtc_agent.protocol.ogg import OpusReader, OpusWriter, checksum, opus_head


def tone(seconds: float) -> np.ndarray:
    t = np.arange(int(24_000 * seconds)) / 24_000
    return (0.5 * np.sin(2 * np.pi * 440 * t)).astype(np.float32)


def read(data: bytes, *sizes: int) -> list[bytes]:
    reader = OpusReader()
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [p for piece in [*pieces, data[at:]] for p in reader.push(piece)]


packets = st.lists(st.binary(min_size=1, max_size=700), min_size=1, max_size=12)


def stream(audio: list[bytes]) -> bytes:
    writer = OpusWriter(serial=7, sample_rate=24_000, vendor="test")
    return writer.head() + b"".join(writer.write([p], 960) for p in audio)


@given(packets, st.lists(st.integers(1, 90), max_size=60))
def test_what_is_written_is_read_whatever_the_pieces(audio: list[bytes], sizes: list[int]) -> None:
    assert read(stream(audio), *sizes) == audio


def test_packets_of_the_critical_lengths() -> None:
    audio = [bytes([1]) * n for n in (1, 254, 255, 256, 509, 510, 511, 1275)]
    assert read(stream(audio)) == audio


def test_our_stream_is_read_by_ffmpeg() -> None:
    codec = av.CodecContext.create("libopus", "w")
    codec.sample_rate, codec.layout, codec.format = 24_000, "mono", "flt"
    codec.options = {"frame_duration": "20"}
    audio = []
    for i in range(0, 24_000, 480):
        frame = av.AudioFrame.from_ndarray(tone(1)[None, i : i + 480], "flt", "mono")
        frame.sample_rate, frame.pts = 24_000, i
        audio += [bytes(p) for p in codec.encode(frame)]
    with av.open(io.BytesIO(stream(audio)), format="ogg") as container:
        frames = [f.to_ndarray() for f in container.decode(audio=0)]
    heard = np.concatenate([f[0] for f in frames])
    assert abs(len(heard) - 48_000) <= 960
    spectrum = np.abs(np.fft.rfft(heard[24_000:]))
    assert abs(np.argmax(spectrum) * 48_000 / len(heard[24_000:]) - 440) < 3


def test_our_stream_is_read_by_the_reference_clients_library() -> None:
    writer = sphn.OpusStreamWriter(24_000)
    data = b"".join(writer.append_pcm(tone(1)[i : i + 480]) for i in range(0, 24_000, 480))
    reader = sphn.OpusStreamReader(24_000)
    heard = [reader.append_bytes(stream(read(data)))]
    pcm = np.concatenate(heard)
    assert len(pcm) > 20_000
    assert np.sqrt(np.mean(pcm[4_000:] ** 2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.1)


def test_the_reference_clients_stream_is_read() -> None:
    writer = sphn.OpusStreamWriter(24_000)
    data = b"".join(writer.append_pcm(tone(1)[i : i + 1920]) for i in range(0, 24_000, 1920))
    audio = read(data, *[50] * 20)
    decoder = av.CodecContext.create("opus", "r")
    decoder.sample_rate = 48_000
    assert len(audio) > 10
    assert sum(f.samples for p in audio for f in decoder.decode(av.Packet(p))) > 20_000


def test_a_packet_over_several_pages_is_put_together() -> None:
    """FFmpeg's muxer splits packets over pages when they do not fit; here by hand."""
    writer = OpusWriter(serial=1, sample_rate=24_000, vendor="t")
    head = writer.head()
    whole = bytes(range(256)) * 2
    page = bytearray(writer.write([whole], 960))
    lacing = page[26]
    assert lacing == 3
    first = _repage(bytes(page), flags=0, segments=[whole[:255]])
    second = _repage(bytes(page), flags=1, segments=[whole[255:510], whole[510:]])
    assert read(head + first + second) == [whole]


def _repage(page: bytes, flags: int, segments: list[bytes]) -> bytes:
    head = bytearray(page[:26]) + bytes([len(segments)]) + bytes(map(len, segments))
    head[5] = flags
    head[22:26] = bytes(4)
    made = head + b"".join(segments)
    made[22:26] = checksum(bytes(made)).to_bytes(4, "little")
    return bytes(made)


def test_a_damaged_page_is_lost_alone() -> None:
    audio = [bytes([n]) * 40 for n in range(1, 6)]
    data = bytearray(stream(audio))
    at = data.index(audio[2])
    data[at] ^= 0xFF
    reader = OpusReader()
    assert list(reader.push(bytes(data))) == [p for p in audio if p != audio[2]]
    assert reader.damaged > 0


def test_a_stream_that_begins_again_is_taken_up() -> None:
    assert read(stream([b"one"]) + stream([b"two"])) == [b"one", b"two"]


def test_a_stream_of_something_else_is_refused() -> None:
    data = stream([b"x"]).replace(b"OpusHead", b"\x01vorbis.")
    reader = OpusReader()
    with pytest.raises(InvalidRequest):
        list(reader.push(_fixed(data)))


def _fixed(data: bytes) -> bytes:
    """The first page with its checksum made right again."""
    length = 27 + 1 + len(opus_head(24_000))
    first = data[:length]
    return _repage(first, flags=2, segments=[first[28:]]) + data[length:]


def test_garbage_is_skipped_in_bounded_memory() -> None:
    reader = OpusReader()
    for _ in range(100):
        assert list(reader.push(b"\x00" * 10_000)) == []
    assert len(reader._buffer) < 10
    assert reader.damaged > 900_000


def test_a_packet_without_end_is_refused() -> None:
    reader = OpusReader()
    page = stream([b"x"])
    whole = _repage(page[: 28 + len(opus_head(24_000))], flags=2, segments=[opus_head(24_000)])
    endless = _repage(whole, flags=1, segments=[b"\x07" * 255] * 255)
    with pytest.raises(InvalidRequest):
        for data in [whole, *[endless] * 3]:
            list(reader.push(data))


@given(st.binary(max_size=400))
def test_no_bytes_make_it_raise_anything_else(data: bytes) -> None:
    reader = OpusReader()
    try:
        list(reader.push(stream([b"a"]) + data))
        list(reader.push(b"OggS" + data))
    except InvalidRequest:
        pass
