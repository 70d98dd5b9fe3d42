"""The headless telephone against another one that echoes, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from rtc_agent.client.sip_phone import SipPhone
from rtc_agent.client.sip_probe import SipProbeOrder, probe
from rtc_agent.errors import CallRefused, InvalidRequest, ServerUnreachable
from rtc_agent.protocol.sip import SipMessage, audio_offer, media_address


class Echo(asyncio.DatagramProtocol):
    """Takes calls and sends every packet back. `lose` of its first messages never arrive."""

    def __init__(self, status: int, lose: int) -> None:
        self.status = status
        self.lose = lose
        self.received: list[SipMessage] = []
        self.sip: asyncio.DatagramTransport | None = None
        self.rtp_port = 0

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        message = SipMessage.parse(data)
        assert message is not None and self.sip is not None
        if message.status:
            return
        self.received.append(message)
        if message.method == "ACK":
            return
        if message.method == "INVITE" and self.lose > 0:
            self.lose -= 1
            return
        self.sip.sendto(self._answer(message, 180).encode(), addr)
        self.sip.sendto(self._answer(message, self.status).encode(), addr)

    def _answer(self, request: SipMessage, status: int) -> str:
        copied = [(n, v) for n, v in request.headers if n in ("Via", "From", "CSeq", "Call-ID")]
        headers = [*copied, ("To", f"{request.header('To').partition(';tag')[0]};tag=echo")]
        assert self.sip is not None
        port = self.sip.get_extra_info("sockname")[1]
        headers.append(("Contact", f"<sip:echo@127.0.0.1:{port}>"))
        body = ""
        if request.method == "INVITE" and status == 200:
            assert media_address(request.body) is not None
            body = audio_offer("127.0.0.1", self.rtp_port, 0, "PCMU/8000")
        return str(SipMessage(f"SIP/2.0 {status} X", tuple(headers), body))

    def methods(self) -> list[str]:
        return [m.method for m in self.received]

    def say(self, method: str) -> None:
        """A request of this side's, within the call."""
        invite = next(m for m in self.received if m.method == "INVITE")
        headers = (
            ("Via", "SIP/2.0/UDP 127.0.0.1:1;branch=z9hG4bKecho"),
            ("From", f"{invite.header('To')};tag=echo"),
            ("To", invite.header("From")),
            ("Call-ID", invite.header("Call-ID")),
            ("CSeq", f"7 {method}"),
        )
        uri = invite.header("Contact").strip("<>")
        assert self.sip is not None
        port = int(uri.rpartition(":")[2])
        message = SipMessage(f"{method} {uri} SIP/2.0", headers)
        self.sip.sendto(str(message).encode(), ("127.0.0.1", port))


class EchoAudio(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(data, addr)  # type: ignore[attr-defined]


@contextlib.asynccontextmanager
async def echo(status: int = 200, lose: int = 0) -> AsyncIterator[tuple[Echo, str]]:
    loop = asyncio.get_running_loop()
    here = ("127.0.0.1", 0)
    sip, fake = await loop.create_datagram_endpoint(lambda: Echo(status, lose), local_addr=here)
    rtp, _ = await loop.create_datagram_endpoint(EchoAudio, local_addr=here)
    fake.sip, fake.rtp_port = sip, rtp.get_extra_info("sockname")[1]
    try:
        yield fake, f"sip:echo@127.0.0.1:{sip.get_extra_info('sockname')[1]}"
    finally:
        sip.close()
        rtp.close()


async def test_a_probe_finds_its_echo_and_hangs_up() -> None:
    async with echo() as (fake, uri):
        report = await probe(SipProbeOrder(uri, seconds=2))
    assert report.ok
    assert report.measured.lost_chirps == 0
    assert 0 <= min(report.measured.delays_ms) < 200
    assert fake.methods() == ["INVITE", "ACK", "BYE"]


async def test_an_invite_that_is_lost_is_sent_again() -> None:
    async with echo(lose=1) as (fake, uri), SipPhone(uri) as phone:
        await phone.connect()
        assert fake.methods()[:2] == ["INVITE", "INVITE"]
        assert len({m.branch for m in fake.received if m.method == "INVITE"}) == 1


async def test_a_refusal_is_acknowledged_and_said() -> None:
    async with echo(status=486) as (fake, uri), SipPhone(uri) as phone:
        with pytest.raises(CallRefused, match="486"):
            await phone.connect()
        await asyncio.sleep(0.05)
        assert fake.methods() == ["INVITE", "ACK"]


async def test_the_other_sides_goodbye_ends_the_call_at_once() -> None:
    async with echo() as (fake, uri), SipPhone(uri) as phone:
        await phone.connect()
        fake.say("BYE")
        assert not await phone.wait_until(phone.clock.now() + 5)
        assert phone.ended == "peer_closed"
    assert "BYE" not in fake.methods()


async def test_nobody_there_and_no_address_are_said() -> None:
    async with echo(lose=99) as (_, uri), SipPhone(uri) as phone:
        with pytest.raises(ServerUnreachable, match="did not answer"):
            await phone.connect(timeout_s=0.3)
    with pytest.raises(InvalidRequest):
        SipPhone("http://example.org")
