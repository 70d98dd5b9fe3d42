"""The private places this project touches are where they were; each touch does what it is for."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest
from aiortc import RTCDataChannel, RTCPeerConnection, RTCRtpReceiver, RTCSessionDescription
from aiortc.codecs import CODECS
from aiortc.rtcdtlstransport import SRTP_PROFILES, RTCCertificate
from OpenSSL import SSL

from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media.ice import IceServer, IceSettings

LOOPBACK = ("127.0.0.1",)


def test_nothing_has_moved() -> None:
    """When this fails, read the release notes of aiortc and aioice and adapt `aiortc_shim`."""
    assert shim.check() == []


def test_a_move_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(self: RTCRtpReceiver, packet: object) -> None:
        """A version that keeps its buffer elsewhere."""

    monkeypatch.setattr(RTCRtpReceiver, "_handle_rtp_packet", moved)
    assert any("jitter_buffer" in name for name in shim.check())
    monkeypatch.delattr(RTCCertificate, "_create_ssl_context")
    assert "RTCCertificate._create_ssl_context" in shim.check()


def test_without_the_place_the_receiver_stays_as_it_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert shim.tap_audio(object(), lambda packet: None) is False  # type: ignore[arg-type]
    assert "jitter buffer" in caplog.text


def test_rsa_peers_find_a_cipher() -> None:
    shim.prepare()
    certificate = RTCCertificate.generateCertificate()
    context = certificate._create_ssl_context(srtp_profiles=SRTP_PROFILES)
    ciphers = SSL.Connection(context).get_cipher_list()
    assert any("ECDHE-RSA" in name for name in ciphers)
    assert any("ECDHE-ECDSA" in name for name in ciphers)


async def test_no_server_is_asked_unless_named() -> None:
    pc = shim.new_peer_connection(IceSettings())
    pc.addTransceiver("audio")
    (transport,) = shim.ice_transports(pc)
    connection = transport.iceGatherer._connection
    assert connection.stun_server is None and connection.turn_server is None
    await pc.close()
    settings = IceSettings(servers=(IceServer(("turn:192.0.2.1:3478",), "user", "secret"),))
    pc = shim.new_peer_connection(settings)
    pc.addTransceiver("audio")
    (transport,) = shim.ice_transports(pc)
    connection = transport.iceGatherer._connection
    assert connection.turn_server == ("192.0.2.1", 3478)
    assert connection.turn_username == "user"
    await pc.close()


@pytest.mark.parametrize("hosts", [LOOPBACK, ("127.0.0.1", "::1")])
async def test_only_the_named_hosts_are_offered(hosts: tuple[str, ...]) -> None:
    pc = shim.new_peer_connection(IceSettings())
    pc.addTransceiver("audio")
    pc.createDataChannel("text")
    shim.restrict_hosts(pc, hosts)
    await pc.setLocalDescription(await pc.createOffer())
    offered = {
        line.split(" ")[4]
        for line in pc.localDescription.sdp.splitlines()
        if line.startswith("a=candidate:")
    }
    await pc.close()
    assert offered <= set(hosts) and "127.0.0.1" in offered


def test_telephone_events_are_negotiated_once() -> None:
    shim.prepare()
    shim._register_telephone_event()
    assert [c.name for c in CODECS["audio"]].count(shim.TELEPHONE_EVENT) == 1


async def test_a_tap_that_fails_does_not_end_the_receiver(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(packet: shim.RtpPacket) -> None:
        raise RuntimeError("no")

    with caplog.at_level(logging.ERROR):
        assert shim._Tap(broken).add(object()) == (False, None)  # type: ignore[arg-type]
    assert "could not be taken in" in caplog.text


async def test_closing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pc = RTCPeerConnection()

    async def hang() -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(pc, "close", hang)
    assert await shim.close(pc, timeout_s=0.05) is False


async def talking() -> tuple[RTCPeerConnection, RTCPeerConnection, RTCDataChannel]:
    """Two connected peers, and the first one's end of an open channel."""
    a, b = (shim.new_peer_connection(IceSettings()) for _ in range(2))
    channel = a.createDataChannel("text")
    opened = asyncio.Event()
    channel.on("open", opened.set)
    shim.restrict_hosts(a, LOOPBACK)
    await a.setLocalDescription(await a.createOffer())
    await b.setRemoteDescription(a.localDescription)
    shim.restrict_hosts(b, LOOPBACK)
    await b.setLocalDescription(await b.createAnswer())
    await a.setRemoteDescription(RTCSessionDescription(b.localDescription.sdp, "answer"))
    await asyncio.wait_for(opened.wait(), 10)
    return a, b, channel


async def test_a_message_after_the_goodbye_is_no_stray_exception() -> None:
    """Neither in a task that nobody awaits nor in closing."""
    unhandled: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    a, b, channel = await talking()
    assert a.sctp is not None
    a.sctp.transport._ssl.shutdown()
    with pytest.raises(ConnectionError):
        await a.sctp.transport._send_data(b"late")
    channel.send("hello")
    await asyncio.sleep(0.05)
    assert await shim.close(a, 5)
    assert a.iceConnectionState == "closed"
    await b.close()
    gc.collect()
    await asyncio.sleep(0.05)
    assert [c for c in unhandled if c.get("exception")] == []


async def test_a_message_to_a_vanished_peer_is_no_stray_exception() -> None:
    """A task that nobody awaits must not fail when the connection below it is gone."""
    unhandled: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    a, b, channel = await talking()
    sctp = a.sctp
    assert sctp is not None

    async def gone(data: bytes) -> None:
        raise ConnectionError("Cannot send encrypted data, not connected")

    sctp.transport._send_data = gone  # type: ignore[method-assign]
    channel.send("hello")
    await asyncio.sleep(0.05)
    # What was never acknowledged is sent again on a timer, in another such task.
    sctp._t3_expired()
    await asyncio.sleep(0.05)
    assert sctp._t3_handle is None, "a timer without an end would keep the connection for good"
    await asyncio.gather(a.close(), b.close())
    gc.collect()
    await asyncio.sleep(0.05)
    assert [c for c in unhandled if isinstance(c.get("exception"), ConnectionError)] == []
