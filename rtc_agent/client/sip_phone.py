"""A headless telephone: calls a SIP address, sends packets on time, keeps all that comes back."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import socket
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiortc.mediastreams import MediaStreamError

from rtc_agent.client.messages import ReceivedMessage
from rtc_agent.client.paced_track import PacedTrack, Quiet
from rtc_agent.client.packets import PacketLog
from rtc_agent.client.recording import Recording
from rtc_agent.client.sources import PacketSource, Silence
from rtc_agent.clock import Clock, MonotonicClock
from rtc_agent.errors import CallFailed, CallRefused, InvalidRequest, ServerUnreachable
from rtc_agent.media.codecs import CODECS, CodecInfo, encoder_for
from rtc_agent.protocol.janus_sip import parse_uri
from rtc_agent.protocol.sip import Dialog, SipMessage, audio_offer, media_address

RETRY_S = 0.5
"""First wait before an unanswered request is sent again (RFC 3261, T1)."""
GOODBYE_S = 2.0
NO_MEDIA_S = 5.0
_TYPES = {"PCMU": (0, "PCMU/8000"), "PCMA": (8, "PCMA/8000"), "G722": (9, "G722/8000")}
_OPUS = (111, "opus/48000/2")
_Address = tuple[str, int]


class SipPhone:
    """A telephone for one call. Use as an async context manager: leaving it hangs up.

    It has what a probe needs of a caller: `play`, `wait_said`, `wait_until`, `recording`.
    """

    def __init__(
        self,
        uri: str,
        *,
        codec: str = "PCMU",
        quiet: Quiet | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`codec` is PCMU, PCMA, G722 or opus. Raises InvalidRequest for what is no address."""
        parsed = parse_uri(uri)
        match = re.search(r":(\d+)(?:;|$)", uri.partition("@")[2] or uri[4:])
        if parsed is None:
            raise InvalidRequest(f"{uri[:100]!r} is no SIP address; expected sip:name@host:port.")
        self.codec: CodecInfo = CODECS[codec.lower()]
        self.clock = clock or MonotonicClock()
        self.log = PacketLog()
        self.messages: list[ReceivedMessage] = []
        """Always empty: a telephone has sound alone."""
        self.connect_ms: float | None = None
        """From the INVITE to its answer, set by `connect`."""
        self.ended: str | None = None
        self.track = PacedTrack(quiet or Silence(encoder_for(codec)), self.clock, self.codec)
        self._uri = uri
        self._host, self._port = parsed.host, int(match[1]) if match else 5060
        self._payload_type, self._codec_line = _TYPES.get(self.codec.name, _OPUS)
        self._dialog: Dialog | None = None
        self._sip: _Socket | None = None
        self._rtp: _Socket | None = None
        self._answers: dict[str, asyncio.Queue[SipMessage]] = {}
        self._acknowledgement: SipMessage | None = None
        self._over = asyncio.Event()
        self._send_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def connect(self, timeout_s: float = 30.0) -> None:
        """Call and wait for an answer.

        Raises:
            ServerUnreachable: nothing answers at the address.
            CallRefused: a final answer other than yes.
        """
        started_s = self.clock.now()
        address = await self._open_sockets()
        assert self._sip is not None and self._rtp is not None
        self._dialog = Dialog(self._uri, f"sip:probe@{address}:{self._sip.port}")
        offer = audio_offer(address, self._rtp.port, self._payload_type, self._codec_line)
        invite = self._dialog.invite(offer)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._final_answer(invite)
        except TimeoutError:
            with contextlib.suppress(OSError):
                self._sip.send(str(self._dialog.cancel()).encode())
            raise ServerUnreachable(
                f"{self._host} port {self._port} did not answer the call within {timeout_s:g} s."
            ) from None
        if answer.status >= 300:
            self._sip.send(str(self._dialog.acknowledge(answer)).encode())
            raise CallRefused(f"The call was refused: {answer.status} {answer.reason}.")
        self._dialog.establish(answer)
        self._acknowledgement = self._dialog.acknowledge(answer)
        self._sip.send(str(self._acknowledgement).encode())
        to = media_address(answer.body)
        if to is None:
            raise CallFailed("The answer wants no audio.")
        self.connect_ms = (self.clock.now() - started_s) * 1e3
        loop = asyncio.get_running_loop()
        self._send_task = loop.create_task(self._send_audio(to), name="telephone audio")

    def play(self, source: PacketSource) -> float:
        """Say `source` from now on; returns when its first sample counts as said."""
        return self.track.play(source)

    async def wait_until(self, when_s: float) -> bool:
        """Wait for a moment on the clock. False, at once, when the call ends before."""
        while (left_s := when_s - self.clock.now()) > 0 and not self._over.is_set():
            await _either(self._over, None, min(left_s, 0.5))
            self._check_media()
        return not self._over.is_set()

    async def wait_said(self) -> bool:
        """Wait until all that was played is sent. False when the call ends before."""
        while not self.track.finished.is_set() and not self._over.is_set():
            await _either(self._over, self.track.finished, 0.5)
            self._check_media()
        return not self._over.is_set()

    def recording(self, origin_s: float, samples: int) -> Recording:
        """What was heard from `origin_s` on, `samples` long at 24 kHz."""
        return Recording(self.log.in_order(), self.codec, origin_s, samples)

    async def aclose(self) -> None:
        """Hang up, if the call still stands, and close everything. Idempotent; bounded."""
        if self.ended is None and self._dialog is not None and self._send_task is not None:
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(GOODBYE_S):
                    await self._final_answer(self._dialog.request("BYE"))
        self._end("hangup")
        self.track.stop()
        if self._send_task is not None:
            self._send_task.cancel()
            await asyncio.wait({self._send_task})
            self._send_task = None
        for sock in (self._sip, self._rtp):
            if sock is not None:
                sock.close()
        self._sip = self._rtp = None

    # -- inside ---------------------------------------------------------------------------------

    async def _open_sockets(self) -> str:
        """Sockets towards the address; returns this side's own."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                self._host, self._port, family=socket.AF_INET, type=socket.SOCK_DGRAM
            )
        except OSError as error:
            raise ServerUnreachable(f"{self._host} is not known: {error.strerror}.") from error
        remote = (str(found[0][4][0]), self._port)
        address = _own_address(remote)
        self._sip = await _Socket.open(address, remote, self._on_sip)
        self._rtp = await _Socket.open(address, None, self._on_rtp)
        return address

    async def _final_answer(self, request: SipMessage) -> SipMessage:
        """Send a request, again and again until something answers, and await the last word."""
        assert self._sip is not None
        answers = self._answers.setdefault(request.branch, asyncio.Queue())
        wait_s: float | None = RETRY_S
        while True:
            if wait_s is not None:
                self._sip.send(str(request).encode())
            try:
                async with asyncio.timeout(wait_s):
                    answer = await answers.get()
            except TimeoutError:
                wait_s = min(4.0, wait_s * 2) if wait_s is not None else None
                continue
            if answer.status >= 200:
                return answer
            wait_s = None

    def _on_sip(self, data: bytes) -> None:
        message = SipMessage.parse(data)
        if message is None or self._dialog is None or self._sip is None:
            return
        if not message.status:
            self._on_request(message)
        elif message.method == "INVITE" and message.status >= 200 and self._acknowledgement:
            # The answer came again: the acknowledgement was lost.
            self._sip.send(str(self._acknowledgement).encode())
        elif (answers := self._answers.get(message.branch)) is not None:
            answers.put_nowait(message)

    def _on_request(self, request: SipMessage) -> None:
        assert self._dialog is not None and self._sip is not None and self._rtp is not None
        if request.method == "ACK":
            return
        body = ""
        if request.method == "INVITE":
            address = self._dialog.local.partition("@")[2].rpartition(":")[0]
            body = audio_offer(address, self._rtp.port, self._payload_type, self._codec_line, 2)
        self._sip.send(str(self._dialog.answer(request, 200, "OK", body)).encode())
        if request.method == "BYE":
            self._end("peer_closed")

    def _on_rtp(self, data: bytes) -> None:
        if len(data) < 12 or data[1] & 0x7F != self._payload_type:
            return
        _, _, sequence, timestamp = struct.unpack("!BBHI", data[:8])
        self.log.add(self.clock.now(), sequence, timestamp, data[12:])

    async def _send_audio(self, to: tuple[str, int]) -> None:
        assert self._rtp is not None
        ssrc, sequence, base = secrets.randbits(32), secrets.randbits(15), secrets.randbits(31)
        while True:
            try:
                packet = await self.track.recv()
            except MediaStreamError:
                return
            sequence = (sequence + 1) % 0x1_0000
            timestamp = (base + packet.pts) % 0x1_0000_0000
            header = struct.pack("!BBHII", 0x80, self._payload_type, sequence, timestamp, ssrc)
            self._rtp.send(header + bytes(packet), to)

    def _check_media(self) -> None:
        last_s = self.log.last_arrival_s
        if last_s is not None and self.clock.now() - last_s > NO_MEDIA_S:
            self._end("no_media")

    def _end(self, reason: str) -> None:
        if self.ended is None:
            self.ended = reason
            self._over.set()


class _Socket(asyncio.DatagramProtocol):
    """A UDP socket whose datagrams go to a function."""

    def __init__(self, remote: _Address | None, on_data: Callable[[bytes], None]) -> None:
        self._remote = remote
        self._on_data = on_data
        self._transport: asyncio.DatagramTransport | None = None

    @classmethod
    async def open(
        cls, address: str, remote: _Address | None, on_data: Callable[[bytes], None]
    ) -> _Socket:
        """A socket at that address of this machine, for datagrams to `remote` unless they say
        otherwise."""
        loop = asyncio.get_running_loop()
        transport, opened = await loop.create_datagram_endpoint(
            lambda: cls(remote, on_data), local_addr=(address, 0)
        )
        opened._transport = transport
        return opened

    @property
    def port(self) -> int:
        assert self._transport is not None
        return int(self._transport.get_extra_info("sockname")[1])

    def send(self, data: bytes, to: _Address | None = None) -> None:
        assert self._transport is not None
        self._transport.sendto(data, to or self._remote)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self._on_data(data)


def _own_address(remote: _Address) -> str:
    """The address of this machine that packets to `remote` leave from; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(remote)
        return str(probe.getsockname()[0])


async def _either(first: asyncio.Event, second: asyncio.Event | None, timeout_s: float) -> None:
    """Return once one of them is set, or the time is up."""
    waits = [asyncio.ensure_future(e.wait()) for e in (first, second) if e is not None]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
