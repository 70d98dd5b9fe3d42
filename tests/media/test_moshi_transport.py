"""The Moshi transport against the reference client's own Opus library, without a socket."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import sphn

from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES, Pcm
from rtc_agent.errors import InvalidRequest
from rtc_agent.media.moshi_transport import MoshiTransport
from rtc_agent.protocol.ogg import checksum
from tests.virtual_clock import VirtualClock


class Events:
    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def on_connected(self) -> None:
        self.told.append(("connected",))

    def on_closed(self, reason: str) -> None:
        self.told.append(("closed", reason))

    def on_channel(self, label: str) -> None:
        self.told.append(("channel", label))

    def on_message(self, label: str, message: str) -> None:
        self.told.append(("message", label, message))


class Bench:
    """A transport, and a reference client at its other end."""

    def __init__(self) -> None:
        self.events = Events()
        self.clock = VirtualClock()
        self.posted: list[bytes] = []
        self.accepts = True
        self.closed = 0
        self.transport = MoshiTransport(self.events, self._post, self._close)
        self.writer = sphn.OpusStreamWriter(24_000)
        self.reader = sphn.OpusStreamReader(24_000)

    def _post(self, message: bytes) -> bool:
        if self.accepts:
            self.posted.append(message)
        return self.accepts

    def _close(self) -> None:
        self.closed += 1

    def say(self, pcm: Pcm) -> None:
        data = self.writer.append_pcm(pcm)
        if data:
            self.transport.receive(b"\x01" + data)

    def frame(self) -> Pcm:
        frame = self.transport.source.reserve()
        self.transport.source.commit()
        return frame

    def heard(self) -> Pcm:
        """All agent audio so far, as the client decodes it."""
        pieces = [self.reader.append_bytes(m[1:]) for m in self.posted if m[0] == 1]
        self.posted.clear()
        return np.concatenate(pieces) if pieces else np.empty(0, np.float32)


def tone(frames: int, hz: float = 440) -> list[Pcm]:
    t = np.arange(frames * FRAME_SAMPLES) / 24_000
    pcm = (0.5 * np.sin(2 * np.pi * hz * t)).astype(np.float32)
    return [pcm[i : i + FRAME_SAMPLES] for i in range(0, len(pcm), FRAME_SAMPLES)]


def rms(pcm: Pcm) -> float:
    return float(np.sqrt(np.mean(pcm**2)))


def pitch(pcm: Pcm) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(pcm)))) * 24_000 / len(pcm)


def exchange(bench: Bench, frames: list[Pcm]) -> Pcm:
    """Each tick the client sends a frame and the agent hears one."""
    out = []
    for frame in frames:
        bench.say(frame)
        bench.clock.advance(FRAME_S)
        out.append(bench.frame())
    return np.concatenate(out)


def test_the_agent_hears_the_reference_client() -> None:
    heard = exchange(Bench(), tone(25))
    assert rms(heard[-12_000:]) == pytest.approx(0.5 / np.sqrt(2), rel=0.1)
    assert pitch(heard[-12_000:]) == pytest.approx(440, abs=3)


def test_the_reference_client_hears_the_agent() -> None:
    bench = Bench()
    for frame in tone(25, 300):
        bench.transport.play(frame)
    heard = bench.heard()
    assert len(heard) >= 23 * FRAME_SAMPLES
    assert pitch(heard[-12_000:]) == pytest.approx(300, abs=3)


def test_the_first_audio_message_begins_the_stream_and_no_other_does() -> None:
    bench = Bench()
    for frame in tone(2):
        bench.transport.play(frame)
    begins = [message[:5] == b"\x01OggS" and bool(message[6] & 2) for message in bench.posted]
    assert begins == [True, False, False, False]


def test_a_refused_first_page_does_not_lose_the_streams_beginning() -> None:
    bench = Bench()
    bench.accepts = False
    bench.transport.play(tone(1)[0])
    bench.accepts = True
    for frame in tone(10):
        bench.transport.play(frame)
    assert len(bench.heard()) > 8 * FRAME_SAMPLES
    assert bench.transport.stats().underruns == 2


def test_a_muted_client_is_heard_again_at_once() -> None:
    bench = Bench()
    exchange(bench, tone(10))
    for _ in range(100):
        bench.clock.advance(FRAME_S)
        last = bench.frame()
    assert rms(last) == 0
    heard = exchange(bench, tone(6))
    assert rms(heard[3 * FRAME_SAMPLES :]) > 0.25


def test_a_burst_after_a_stall_does_not_become_lag() -> None:
    bench = Bench()
    exchange(bench, tone(10))
    for _ in range(12):
        bench.clock.advance(FRAME_S)
        bench.frame()
    for frame in tone(12):
        bench.say(frame)
    exchange(bench, tone(20))
    stats = bench.transport.stats()
    assert stats.receive_buffer_ms <= 240
    assert stats.dropped_ms > 0


def test_it_reports_its_opening_and_its_loss_once() -> None:
    bench = Bench()
    bench.transport.open()
    bench.transport.lost("peer_closed")
    bench.transport.lost("connection_failed")
    assert bench.events.told == [("connected",), ("channel", "moshi"), ("closed", "peer_closed")]
    assert not bench.transport.send("moshi", "\x02late")


def test_text_goes_out_as_it_is_and_other_channels_do_not_exist() -> None:
    bench = Bench()
    assert bench.transport.send("moshi", "\x02schön")
    assert bench.posted == ["\x02schön".encode()]
    assert not bench.transport.send("text", "{}")


def test_unknown_and_empty_messages_are_let_go() -> None:
    bench = Bench()
    for message in (b"", b"\x09abc", b"\xff", b"\x02hello", b"\x01"):
        bench.transport.receive(message)
    assert bench.events.told == []
    bench.transport.receive(b"\x03\x01")
    assert bench.events.told == [("message", "moshi", "\x03\x01")]


def test_sound_that_is_not_ogg_opus_is_refused() -> None:
    transport = Bench().transport
    flac = bytes.fromhex("4f676753000200000000000000000100000000000000")
    with pytest.raises(InvalidRequest):
        transport.receive(b"\x01" + _page(b"\x7fFLAC" + flac[:9]))


def _page(body: bytes) -> bytes:
    head = b"OggS\0\x02" + bytes(8) + b"\x01\0\0\0" + bytes(4)
    rest = bytes([1, len(body)]) + body
    return head + checksum(head + bytes(4) + rest).to_bytes(4, "little") + rest


def test_closing_is_told_to_the_socket_once_asked_and_nothing_follows() -> None:
    bench = Bench()
    asyncio.run(bench.transport.aclose())
    assert bench.closed == 1
    bench.transport.play(tone(1)[0])
    assert bench.posted == []
