"""A telephone in this process: SIP over UDP that a test can bend, and RTP with kernel times."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rtc_agent.client.packets import PacketLog
from rtc_agent.client.recording import Recording
from rtc_agent.client.sources import PacketSource, SilentPayload
from rtc_agent.media.codecs import CODECS, PACKET_S, PACKET_SAMPLES, encoder_for, silence
from rtc_agent.protocol.telephone_event import TelephoneEvent

_TYPES = {"PCMU": 0, "PCMA": 8, "G722": 9, "opus": 111}
_KEYS = 101
_SO_TIMESTAMPNS = 35
"""Linux; Python 3.11 has no name for it."""
_KEY_NAMES = "0123456789*#ABCD"


@dataclass
class SipMessage:
    """One message: its first line, its headers in order, its body."""

    start: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: str = ""

    @classmethod
    def parse(cls, text: str) -> SipMessage:
        head, _, body = text.partition("\r\n\r\n")
        start, *lines = head.split("\r\n")
        headers = [(n.strip(), v.strip()) for n, _, v in (line.partition(":") for line in lines)]
        return cls(start, headers, body)

    def __str__(self) -> str:
        lines = [self.start, *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*lines, f"Content-Length: {len(self.body)}", "", self.body])

    def header(self, name: str) -> str:
        return next((v for n, v in self.headers if n.lower() == name.lower()), "")

    def every(self, name: str) -> list[str]:
        return [v for n, v in self.headers if n.lower() == name.lower()]

    @property
    def status(self) -> int:
        """Of a response; 0 for a request."""
        return int(self.start.split(" ")[1]) if self.start.startswith("SIP/2.0") else 0

    @property
    def method(self) -> str:
        return self.header("CSeq").split(" ")[1] if self.status else self.start.split(" ")[0]


class Softphone:
    """One telephone with one call. Timers that SIP prescribes run only where a test needs them.

    `lose` decides which messages from the other side never arrive.
    """

    def __init__(self, codecs: tuple[str, ...] = ("PCMU",)) -> None:
        self.codecs = codecs
        self.codec = CODECS[codecs[0].lower()]
        self.lose: Callable[[SipMessage], bool] = lambda _: False
        self.received: list[SipMessage] = []
        self.log = PacketLog()
        self.messages: list[object] = []
        self.arrivals_ns: list[int] = []
        """Kernel time of every audio packet."""
        self.sdp_address = "127.0.0.1"
        self.session_expires: str | None = None
        self.call_id = secrets.token_hex(8)
        self.answer_invites = 200
        """Final status for calls that come here."""
        self._news = asyncio.Event()
        self._sip = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._rtp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for sock in (self._sip, self._rtp):
            sock.bind(("127.0.0.1", 0))
            sock.setblocking(False)
        self._rtp.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.sip_port, self.rtp_port = self._sip.getsockname()[1], self._rtp.getsockname()[1]
        self._tag = secrets.token_hex(4)
        self._remote_tag = ""
        self._target = ("", "127.0.0.1", 0)
        self._cseq = 0
        self._notify_state = ""
        self._route: list[str] = []
        self._invite: SipMessage | None = None
        self._remote_rtp: tuple[str, int] | None = None
        self._payload_type = _TYPES[self.codec.name]
        self._ssrc = secrets.randbits(32)
        self._sequence = secrets.randbits(15)
        self._timestamp = secrets.randbits(31)
        self._source: PacketSource | None = None
        self.said = asyncio.Event()
        self._next_due_s = 0.0
        self._pending_key: tuple[str, int] | None = None
        self._send_task: asyncio.Task[None] | None = None
        self.direction = "sendrecv"
        self.suppressed = False
        """It sends nothing while nobody speaks, as silence suppression does."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._sip, self._on_sip)
        loop.add_reader(self._rtp, self._on_rtp)

    # -- signalling -----------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        return f"sip:tester@127.0.0.1:{self.sip_port}"

    def invite(self, uri: str, *, sdp: bool = True, user: str | None = None) -> None:
        """Begin a call; `user` is whom it is for, if not the address's own."""
        match = re.match(r"sip:([^@]*)@([\d.]+):(\d+)", uri)
        assert match is not None, uri
        self._target = (uri, match[2], int(match[3]))
        self._remote_tag, self.call_id = "", secrets.token_hex(8)
        to = uri if user is None else uri.replace(f"sip:{match[1]}@", f"sip:{user}@")
        self._to = f"<{to}>"
        self._invite = self.request("INVITE", self._description() if sdp else "")

    def request(self, method: str, body: str = "", kind: str = "application/sdp") -> SipMessage:
        """Send a request within the dialog, or the one that makes it."""
        if method not in ("ACK", "CANCEL"):
            self._cseq += 1
        branch = f"z9hG4bK{secrets.token_hex(8)}"
        if method == "CANCEL":
            assert self._invite is not None
            branch = re.findall(r"branch=([^;]+)", self._invite.header("Via"))[0]
        tag = f";tag={self._remote_tag}" if self._remote_tag and method != "CANCEL" else ""
        headers = [
            ("Via", f"SIP/2.0/UDP 127.0.0.1:{self.sip_port};branch={branch};rport"),
            ("Max-Forwards", "70"),
            ("From", f'"Tester" <{self.uri}>;tag={self._tag}'),
            ("To", f"{self._to}{tag}"),
            ("Call-ID", self.call_id),
            ("CSeq", f"{self._cseq} {method}"),
            ("Contact", f"<{self.uri}>"),
            ("Allow", "INVITE, ACK, BYE, CANCEL, OPTIONS, INFO, UPDATE, NOTIFY, REFER"),
        ]
        if self._remote_tag and method != "CANCEL":
            headers += [("Route", route) for route in self._route]
        if method in ("INVITE", "UPDATE") and self.session_expires is not None:
            headers += [("Session-Expires", self.session_expires), ("Supported", "timer")]
        if method == "NOTIFY":
            headers += [("Event", "refer"), ("Subscription-State", self._notify_state)]
        if body:
            headers.append(("Content-Type", kind))
        message = SipMessage(f"{method} {self._target[0]} SIP/2.0", headers, body)
        self.send(message)
        return message

    def send(self, message: SipMessage) -> None:
        self._sip.sendto(str(message).encode(), self._target[1:])

    def repeat_invite(self) -> None:
        """The same INVITE once more, as a telephone does that got no answer."""
        assert self._invite is not None
        self.send(self._invite)

    async def response(
        self, method: str, at_least: int = 200, timeout_s: float = 10.0
    ) -> SipMessage:
        """The first response to the newest request of that method, of that status or above."""
        return await self.wait(
            lambda m: m.status >= at_least and m.header("CSeq") == f"{self._cseq} {method}",
            timeout_s,
        )

    async def wait(
        self, check: Callable[[SipMessage], bool], timeout_s: float = 10.0
    ) -> SipMessage:
        async with asyncio.timeout(timeout_s):
            while True:
                for message in self.received:
                    if check(message):
                        return message
                self._news.clear()
                await self._news.wait()

    async def call(self, uri: str, *, sdp: bool = True, user: str | None = None) -> SipMessage:
        """Call and, if the other side answers, talk. Returns the final response."""
        self.invite(uri, sdp=sdp, user=user)
        answer = await self.response("INVITE")
        if answer.status == 200:
            self.establish(answer, with_answer=not sdp)
        return answer

    def establish(self, answer: SipMessage, *, with_answer: bool = False) -> None:
        """Acknowledge a 200 and begin to send audio."""
        self.adopt(answer)
        if with_answer:
            self.codecs = (self.codec.name,)
        self.request("ACK", self._description() if with_answer else "")
        if self._send_task is None:
            self._next_due_s = time.monotonic() + PACKET_S
            loop = asyncio.get_running_loop()
            self._send_task = loop.create_task(self._send_audio())

    def adopt(self, answer: SipMessage) -> None:
        """Take over what a 200 says: tag, contact, media."""
        self._remote_tag = re.findall(r"tag=([^;>\s]+)", answer.header("To"))[0]
        self._route = answer.every("Record-Route")[::-1]
        contact = re.findall(r"<(sip:[^>]+)>", answer.header("Contact"))
        if contact:
            self._target = (contact[0], *self._target[1:])
        self._read_media(answer.body)

    async def reinvite(self, direction: str = "sendrecv", address: str | None = None) -> SipMessage:
        """Change the call: hold, resume, another address."""
        self.direction = direction
        self.sdp_address = address or self.sdp_address
        self._invite = self.request("INVITE", self._description())
        answer = await self.response("INVITE")
        if answer.status == 200:
            self._read_media(answer.body)
        self.request("ACK")
        return answer

    async def bye(self) -> SipMessage:
        """Hang up."""
        self.request("BYE")
        return await self.response("BYE")

    async def press_info(self, key: str) -> SipMessage:
        """Press a key by SIP INFO."""
        self.request("INFO", f"Signal={key}\r\nDuration=160\r\n", "application/dtmf-relay")
        return await self.response("INFO")

    def notify(self, sipfrag: str, last: bool = False) -> None:
        """Tell how a transfer goes (RFC 3515)."""
        self._notify_state = "terminated;reason=noresource" if last else "active;expires=60"
        self.request("NOTIFY", sipfrag + "\r\n", "message/sipfrag;version=2.0")

    def close(self) -> None:
        if self._send_task is not None:
            self._send_task.cancel()
        loop = asyncio.get_running_loop()
        for sock in (self._sip, self._rtp):
            loop.remove_reader(sock)
            sock.close()

    def _description(self) -> str:
        types = [_TYPES[name] for name in self.codecs]
        rate = {name: "opus/48000/2" if name == "opus" else f"{name}/8000" for name in self.codecs}
        lines = [
            "v=0",
            f"o=- 1 {self._cseq + 1} IN IP4 127.0.0.1",
            "s=-",
            f"c=IN IP4 {self.sdp_address}",
            "t=0 0",
            f"m=audio {self.rtp_port} RTP/AVP {' '.join(map(str, [*types, _KEYS]))}",
            *(f"a=rtpmap:{_TYPES[name]} {rate[name]}" for name in self.codecs),
            f"a=rtpmap:{_KEYS} telephone-event/8000",
            f"a=fmtp:{_KEYS} 0-15",
            "a=ptime:20",
            f"a={self.direction}",
        ]
        return "\r\n".join(lines) + "\r\n"

    def _read_media(self, sdp: str) -> None:
        if not sdp:
            return
        address = re.findall(r"^c=IN IP4 ([\d.]+)", sdp, re.M)[0]
        port, formats = re.findall(r"^m=audio (\d+) \S+ (.*)$", sdp, re.M)[0]
        self._remote_rtp = (address, int(port))
        self._payload_type = int(formats.split()[0])
        name = next(name for name, pt in _TYPES.items() if pt == self._payload_type)
        self.codec = CODECS[name.lower()]

    def _on_sip(self) -> None:
        while True:
            try:
                data, _ = self._sip.recvfrom(65_536)
            except BlockingIOError:
                return
            message = SipMessage.parse(data.decode())
            if self.lose(message):
                continue
            self.received.append(message)
            self._news.set()
            if not message.status and message.method != "ACK":
                self._answer(message)

    def _answer(self, request: SipMessage) -> None:
        status = "202 Accepted" if request.method == "REFER" else "200 OK"
        if request.method == "INVITE" and self.answer_invites != 200:
            status = f"{self.answer_invites} No"
        copied = [
            (n, v) for n, v in request.headers if n in ("Via", "From", "To", "Call-ID", "CSeq")
        ]
        body = ""
        if request.method == "INVITE" and self.answer_invites == 200:
            body = self._description()
        extra = [("Contact", f"<{self.uri}>")]
        if body:
            extra.append(("Content-Type", "application/sdp"))
        if request.header("Session-Expires") and request.method in ("INVITE", "UPDATE"):
            extra.append(("Session-Expires", request.header("Session-Expires")))
            extra.append(("Require", "timer"))
        tagged = [(n, v if n != "To" or "tag=" in v else f"{v};tag={self._tag}") for n, v in copied]
        answer = SipMessage(f"SIP/2.0 {status}", [*tagged, *extra], body)
        via = re.search(r"([\d.]+):(\d+)", request.header("Via"))
        if via is not None:
            self._sip.sendto(str(answer).encode(), (via[1], int(via[2])))

    # -- audio ----------------------------------------------------------------------------------

    def play(self, source: PacketSource) -> float:
        """Say something from the next packet on; returns when its first sample is said."""
        self._source = source
        self.said.clear()
        return self._next_due_s - PACKET_S

    def press(self, key: str, packets: int = 8) -> None:
        """Press a key within the audio (RFC 4733): no audio meanwhile, the end three times."""
        self._pending_key = (key, packets)

    def recording(self, origin_s: float, samples: int) -> Recording:
        return Recording(self.log.in_order(), self.codec, origin_s, samples)

    async def _send_audio(self) -> None:
        quiet = SilentPayload(encoder_for(self.codec).encode(silence(PACKET_SAMPLES)))
        while True:
            await asyncio.sleep(max(0.0, self._next_due_s - time.monotonic()))
            self._next_due_s += PACKET_S
            if self._pending_key is not None:
                key, packets = self._pending_key
                self._pending_key = None
                await self._send_key(key, packets)
                continue
            payload = self._source.next() if self._source is not None else None
            if payload is None:
                if self._source is not None:
                    self._source = None
                    self.said.set()
                payload = quiet.next()
            if self.direction in ("sendrecv", "sendonly") and not self.suppressed:
                self._send_rtp(self._payload_type, payload, self._timestamp)
            self._timestamp += self.codec.timestamp_step

    async def _send_key(self, key: str, packets: int) -> None:
        event, began = _KEY_NAMES.index(key), self._timestamp
        for step in range(1, packets + 1):
            payload = TelephoneEvent(event, step == packets, 10, 160 * step).encode()
            for _ in range(3 if step == packets else 1):
                self._send_rtp(_KEYS, payload, began)
            self._timestamp += self.codec.timestamp_step
            await asyncio.sleep(max(0.0, self._next_due_s - time.monotonic()))
            self._next_due_s += PACKET_S

    def _send_rtp(self, payload_type: int, payload: bytes, timestamp: int) -> None:
        self._sequence = (self._sequence + 1) % 0x1_0000
        header = struct.pack(
            "!BBHII", 0x80, payload_type, self._sequence, timestamp % (1 << 32), self._ssrc
        )
        if self._remote_rtp is not None:
            with contextlib.suppress(OSError):
                self._rtp.sendto(header + payload, self._remote_rtp)

    def _on_rtp(self) -> None:
        while True:
            try:
                data, ancillary, _, _ = self._rtp.recvmsg(2_048, 64)
            except (BlockingIOError, ConnectionError):
                return
            if len(data) < 12:
                continue
            _, second, sequence, timestamp = struct.unpack("!BBHI", data[:8])
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2][:16])
            kernel_ns = seconds * 1_000_000_000 + nanoseconds
            # Both clocks are read here, so that the kernel's time becomes monotonic time.
            age_s = (time.time_ns() - kernel_ns) / 1e9
            if second & 0x7F == self._payload_type:
                self.arrivals_ns.append(kernel_ns)
                self.log.add(time.monotonic() - age_s, sequence, timestamp, data[12:])
