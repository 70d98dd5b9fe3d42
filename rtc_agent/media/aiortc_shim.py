"""Every touch of aiortc's and aioice's inside. Nothing else in this project uses a private name.

Written against aiortc 1.16 and aioice 0.13. `check()` names each private thing that has moved;
tests fail on it. At run time a touch that no longer fits is left out with one warning, and the call
goes on with the libraries' own behaviour.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import aioice.candidate
import aioice.ice
from aiortc import (
    RTCConfiguration,
    RTCIceServer,
    RTCPeerConnection,
    RTCRtpReceiver,
    RTCRtpSender,
)
from aiortc import codecs as aiortc_codecs
from aiortc.rtcconfiguration import RTCIceTransportPolicy
from aiortc.rtcdtlstransport import RTCCertificate, RTCDtlsTransport
from aiortc.rtcicetransport import RTCIceTransport, parse_stun_turn_uri
from aiortc.rtcrtpparameters import RTCRtpCodecParameters
from aiortc.rtcsctptransport import RTCSctpTransport

from rtc_agent.errors import ServerFull
from rtc_agent.media import consent, goodbye
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.moved import moved_uses
from rtc_agent.media.relay_outcomes import tell_outcomes

logger = logging.getLogger(__name__)

TELEPHONE_EVENT = "telephone-event"
_JITTER_BUFFER = "_RTCRtpReceiver__jitter_buffer"
_STOP_DECODER = "_RTCRtpReceiver__stop_decoder"
_ICE_TRANSPORTS = "_RTCPeerConnection__iceTransports"
_SCTP_TASKS = ("_data_channel_flush", "_transmit", "_transmit_reconfig", "_send_reconfig_param")
"""Sent without being awaited."""
_DTLS_CIPHERS = (
    b"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305:"
    b"ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA:"
    b"ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305:"
    b"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-SHA:ECDHE-RSA-AES256-SHA"
)


class RtpPacket(Protocol):
    """The part of aiortc's RtpPacket that is used here."""

    payload_type: int
    sequence_number: int
    timestamp: int
    ssrc: int
    marker: int
    payload: bytes


def check() -> list[str]:
    """What moved in the installed aiortc and aioice; empty if every touch still fits."""
    needed: list[tuple[object, str]] = [
        (RTCCertificate, "_create_ssl_context"),
        *((RTCSctpTransport, name) for name in _SCTP_TASKS),
        (RTCSctpTransport, "_data_channel_receive"),
        (RTCRtpReceiver, "_handle_rtp_packet"),
        (RTCIceTransport, "iceGatherer"),
        (RTCDtlsTransport, "_handle_rtp_data"),
        (RTCDtlsTransport, "_handle_rtcp_data"),
        (RTCDtlsTransport, "_recv_next"),
        (RTCDtlsTransport, "_send_data"),
        (RTCSctpTransport, "_handle_data"),
        (aioice.ice.Connection, "get_component_candidates"),
        (aioice.ice.Connection, "check_incoming"),
        (aioice.ice, "StunProtocol"),
        (aioice.candidate, "Candidate"),
        (aioice.candidate, "candidate_foundation"),
        (aioice.candidate, "candidate_priority"),
        (aioice.ice, "server_reflexive_candidate"),
        (aioice.ice, "relayed_candidate"),
        (aiortc_codecs, "CODECS"),
    ]
    moved = [f"{getattr(o, '__name__', o)}.{name}" for o, name in needed if not hasattr(o, name)]
    uses: list[tuple[Callable[..., Any], str]] = [
        (RTCRtpReceiver.__init__, _JITTER_BUFFER),
        (RTCRtpReceiver._handle_rtp_packet, _JITTER_BUFFER),
        (RTCRtpReceiver.stop, _STOP_DECODER),
        (RTCPeerConnection.__init__, _ICE_TRANSPORTS),
        (RTCIceTransport.__init__, "_recv"),
        (RTCIceTransport.__init__, "_send"),
        (RTCDtlsTransport._recv_next, "_recv"),
        (RTCDtlsTransport._send_rtp, "_send"),
        (aioice.ice.Connection.gather_candidates, "get_component_candidates"),
        (aioice.ice.Connection.get_component_candidates, "_protocols"),
        (aioice.ice.Connection.get_component_candidates, "relayed_candidate"),
        (aioice.ice.Connection.request_received, "check_incoming"),
        (RTCDtlsTransport._recv_next, "_handle_rtp_data"),
        (RTCDtlsTransport._recv_next, "_handle_rtcp_data"),
        (RTCDtlsTransport._recv_next, "_handle_data"),
    ]
    return moved + moved_uses(uses) + consent.check()


@functools.cache
def prepare() -> None:
    """Process-wide touches. Idempotent; every peer connection made here calls it."""
    for name in check():
        logger.warning(
            "aiortc's %s has moved: this build of rtc-agent does not know this version of aiortc "
            "and leaves that part as it comes",
            name,
        )
    _widen_dtls_ciphers()
    _quiet_data_channels()
    goodbye.lose_what_follows()
    _register_telephone_event()
    consent.ask_patiently()
    tell_outcomes()


def _widen_dtls_ciphers() -> None:
    """Accept peers with an RSA certificate.

    aiortc offers ECDHE-ECDSA suites alone, so that GStreamer before 1.24 finds no shared cipher.
    Can go once aiortc offers ECDHE-RSA suites itself.
    """
    original = getattr(RTCCertificate, "_create_ssl_context", None)
    if original is None:
        return

    @functools.wraps(original)
    def create_ssl_context(self: RTCCertificate, *args: Any, **kwargs: Any) -> Any:
        context = original(self, *args, **kwargs)
        context.set_cipher_list(_DTLS_CIPHERS)
        return context

    RTCCertificate._create_ssl_context = create_ssl_context  # type: ignore[method-assign]


def _quiet_data_channels() -> None:
    """What a data channel sends while the peer vanishes must not become an unretrieved exception.

    aiortc sends in tasks that nobody awaits: messages, and on timers what was not acknowledged. The
    timers stop at the error, as they must: nothing else ends the one of `_transmit`. Can go once
    those tasks handle ConnectionError.
    """
    for name in _SCTP_TASKS:
        original = getattr(RTCSctpTransport, name, None)
        if original is not None:
            setattr(RTCSctpTransport, name, _unless_gone(original))


def _unless_gone(send: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(send)
    async def quiet(*args: Any) -> None:
        try:
            await send(*args)
        except ConnectionError as error:
            logger.debug("not sent on a data channel: %s", error)

    return quiet


def _register_telephone_event() -> None:
    """Negotiate RFC 4733 digits, whose packets aiortc's router would drop as an unknown type.

    They reach `tap_audio` with the audio, in its sequence numbers. Can go once aiortc knows
    telephone-event.
    """
    audio = getattr(aiortc_codecs, "CODECS", {}).get("audio")
    if audio is None or any(c.name == TELEPHONE_EVENT for c in audio):
        return
    audio.append(
        RTCRtpCodecParameters(
            mimeType=f"audio/{TELEPHONE_EVENT}",
            clockRate=8_000,
            channels=1,
            payloadType=101,
            parameters={"0-16": None},
        )
    )


def new_peer_connection(ice: IceSettings) -> RTCPeerConnection:
    """A peer connection that asks only the servers named.

    Without a configuration aiortc asks a public STUN server, at 5 s a call where it cannot be
    reached; an empty list must be given to prevent it.

    Raises:
        RelayUnavailable: it may go by a relay alone, and none answers.
    """
    prepare()
    if ice.relays is not None:
        ice = ice.relays.usable(ice)
    servers = [
        RTCIceServer([u for u in s.urls if _can_use(u)], s.username, s.credential)
        for s in ice.servers
    ]
    policy = RTCIceTransportPolicy.RELAY if ice.relay_only else RTCIceTransportPolicy.ALL
    return RTCPeerConnection(RTCConfiguration(iceServers=servers, iceTransportPolicy=policy))


@functools.cache
def _can_use(url: str) -> bool:
    """Whether aiortc can read the address of a STUN or TURN server: one that it cannot would make
    every offer fail. It reads no IPv6 literal; can go once it does."""
    try:
        parse_stun_turn_uri(url)
    except ValueError:
        logger.warning("%s cannot be used from here, only by callers: give it a name", url)
        return False
    return True


def ice_transports(pc: RTCPeerConnection) -> list[RTCIceTransport]:
    """The transports of a connection; more than one until BUNDLE is agreed on."""
    return list(getattr(pc, _ICE_TRANSPORTS, ()))


def restrict_hosts(
    pc: RTCPeerConnection, hosts: tuple[str, ...], ports: tuple[int, int] | None = None
) -> None:
    """Gather host candidates on these addresses and ports alone, loopback allowed.

    No host given stands for every interface, and for loopback where there is no other, so that a
    machine without a network can still call itself. Call when the transports exist and before
    `setLocalDescription`, which then raises ServerFull if every port is taken. aioice takes every
    interface but loopback, and ports of the system's choice, and has no setting for either; can go
    once it has.
    """
    if not hosts:
        if aioice.ice.get_host_addresses(use_ipv4=True, use_ipv6=True):
            if ports is None:
                return
        else:
            hosts = ("127.0.0.1",)
    for transport in ice_transports(pc):
        connection: Any = getattr(transport.iceGatherer, "_connection", None)
        original = getattr(connection, "get_component_candidates", None)
        if original is None:
            logger.warning("candidates cannot be limited to %s with this aioice", ", ".join(hosts))
            return

        async def gather(
            component: int,
            addresses: list[str],
            timeout: int = 5,
            *,
            connection: Any = connection,
            original: Callable[..., Awaitable[list[Any]]] = original,
        ) -> list[Any]:
            chosen = list(hosts) or addresses
            if ports is None:
                return await original(component=component, addresses=chosen, timeout=timeout)
            bound = await _bind(connection, component, chosen, ports)
            reflexive = await _reflexive(connection, bound, timeout)
            relayed = await original(component=component, addresses=[], timeout=timeout)
            return [*(protocol.local_candidate for protocol in bound), *reflexive, *relayed]

        # With relaying alone aioice passes no address, and none may be added.
        if getattr(connection, "_transport_policy", None) is not aioice.ice.TransportPolicy.RELAY:
            connection.get_component_candidates = gather


async def _bind(
    connection: Any, component: int, addresses: list[str], ports: tuple[int, int]
) -> list[aioice.ice.StunProtocol]:
    """A socket of the connection on a free port of every address that has one."""
    loop = asyncio.get_running_loop()
    first, last = ports
    bound = []
    for address in addresses:
        count = last - first + 1
        start = random.randrange(count)
        for offset in range(count):
            port = first + (start + offset) % count
            try:
                _, protocol = await loop.create_datagram_endpoint(
                    lambda: aioice.ice.StunProtocol(connection), local_addr=(address, port)
                )
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                logger.debug("no candidate on %s: %s", address, error)
                break
            protocol.local_candidate = aioice.candidate.Candidate(
                foundation=aioice.candidate.candidate_foundation("host", "udp", address),
                component=component,
                transport="udp",
                priority=aioice.candidate.candidate_priority(component, "host"),
                host=address,
                port=port,
                type="host",
            )
            bound.append(protocol)
            break
    connection._protocols += bound
    if not bound and addresses:
        raise ServerFull(
            f"No UDP port of {first} to {last} is free for another call.", retry_after_s=5
        )
    return bound


async def _reflexive(
    connection: Any, protocols: list[aioice.ice.StunProtocol], timeout_s: int
) -> list[Any]:
    """What the STUN server, if any, sees these sockets as (IPv4 alone, as aioice has it)."""
    if connection.stun_server is None:
        return []
    tasks = [
        asyncio.create_task(aioice.ice.server_reflexive_candidate(p, connection.stun_server))
        for p in protocols
        if ":" not in p.local_candidate.host
    ]
    if not tasks:
        return []
    done, late = await asyncio.wait(tasks, timeout=timeout_s)
    for task in late:
        task.cancel()
    return [task.result()[0] for task in done if task.exception() is None]


def local_addresses() -> set[str]:
    """This machine's own addresses, loopback included."""
    return {*aioice.ice.get_host_addresses(True, True), "127.0.0.1", "::1"}


class _Tap:
    """Stands where the receiver's jitter buffer was; hands packets on and never fills a frame."""

    def __init__(self, on_packet: Callable[[RtpPacket], None]) -> None:
        self._on_packet = on_packet

    def add(self, packet: RtpPacket) -> tuple[bool, None]:
        try:
            self._on_packet(packet)
        except Exception:
            # An exception here would end aiortc's receive loop, and with it the call.
            logger.exception("an audio packet could not be taken in")
        return False, None


def tap_audio(receiver: RTCRtpReceiver, on_packet: Callable[[RtpPacket], None]) -> bool:
    """Take a receiver's packets before its jitter buffer; it decodes nothing from then on.

    aiortc's buffer holds 80 ms always and 280 ms after one lost packet, conceals nothing, and one
    empty payload ends its decoder. Can go once aiortc hands out encoded packets or takes a buffer.

    Returns:
        False if this aiortc has no such place; the receiver then works as it comes.
    """
    if not hasattr(receiver, _JITTER_BUFFER):
        logger.warning("this aiortc has no jitter buffer to replace: its own delay and gaps remain")
        return False
    setattr(receiver, _JITTER_BUFFER, _Tap(on_packet))
    _end_decoder(receiver)
    return True


def _end_decoder(receiver: Any) -> None:
    """End the thread that aiortc starts to decode: it would wait for the whole call for a frame.

    Each has an arena of its own from the allocator, which calls that come and go break into pieces:
    1.6 MB after 300 of them, with nothing of it in use. Can go once aiortc starts it with the first
    frame.
    """
    receive: Callable[..., Awaitable[None]] = receiver.receive
    end: Callable[[], None] | None = getattr(receiver, _STOP_DECODER, None)
    if end is None:
        logger.warning("this aiortc keeps a thread to decode that decodes nothing")
        return

    async def receive_undecoded(*args: Any, **kwargs: Any) -> None:
        await receive(*args, **kwargs)
        end()

    receiver.receive = receive_undecoded


def watch_arrivals(pc: RTCPeerConnection, on_arrival: Callable[[], None]) -> None:
    """Call back for what the peer itself sent: media, RTCP and data that decrypted, and its STUN
    checks that were authentic. What strangers send to the port is no sign of its life.

    aiortc notices a vanished peer after some 30 s and shows no time of last arrival. Can go once
    its statistics carry one. Call after negotiation, when the final transports are known.
    """
    for dtls in _dtls_transports(pc):
        ice: Any = dtls.transport
        _drop_empty_datagrams(ice)
        _before(getattr(ice.iceGatherer, "_connection", None), "check_incoming", on_arrival)
        _before(dtls, "_handle_rtp_data", on_arrival)
        _before(dtls, "_handle_rtcp_data", on_arrival)
    if pc.sctp is not None:
        _before(pc.sctp, "_handle_data", on_arrival)


def _dtls_transports(pc: RTCPeerConnection) -> set[RTCDtlsTransport]:
    found = {transceiver.receiver.transport for transceiver in pc.getTransceivers()}
    return found if pc.sctp is None else found | {pc.sctp.transport}


def _before(owner: Any, name: str, act: Callable[[], None]) -> None:
    """Act whenever that method of this one object is called."""
    method = getattr(owner, name, None)
    if method is None:
        logger.warning("arrivals cannot be watched with this aiortc: %s is gone", name)
        return

    def watched(*args: Any, **kwargs: Any) -> Any:
        act()
        return method(*args, **kwargs)

    setattr(owner, name, watched)


def _drop_empty_datagrams(ice: Any) -> None:
    """An empty datagram, from anybody who knows the port, ends aiortc's DTLS transport: it looks at
    the first byte without asking. Can go once it asks."""
    receive: Callable[[], Awaitable[bytes]] | None = getattr(ice, "_recv", None)
    if receive is None:
        logger.warning("empty datagrams cannot be dropped with this aiortc")
        return

    async def recv() -> bytes:
        while not (data := await receive()):
            pass
        return data

    ice._recv = recv


Send = Callable[[bytes], Awaitable[None]]
"""Puts one datagram on the network."""


def divert_media(sender: RTCRtpSender, carry: Callable[[bytes, Send], None]) -> bool:
    """Hand each encrypted RTP datagram to `carry` instead of the network.

    `carry` gets the datagram and what sends it, now, later, more than once or never: the place
    for a network model. RTCP, DTLS and STUN go as ever. Call after negotiation. aiortc has no
    such hook; can go once it takes a transport of one's own.

    Returns:
        False if this aiortc has no such place; packets then go straight out.
    """
    transport = sender.transport.transport
    send = getattr(transport, "_send", None)
    if send is None:
        logger.warning("outgoing packets cannot be diverted with this aiortc")
        return False

    async def divert(data: bytes, send: Send = send) -> None:
        # RFC 7983 tells media by its first byte, RFC 5761 RTCP by its second.
        if len(data) > 1 and 128 <= data[0] <= 191 and not 192 <= data[1] <= 223:
            carry(data, send)
        else:
            await send(data)

    transport._send = divert
    return True


async def close(pc: RTCPeerConnection, timeout_s: float) -> bool:
    """Close within a bound; a connection that hangs (a TURN server gone, say) is left behind.

    Returns:
        Whether it closed in time.
    """
    task = asyncio.ensure_future(pc.close())
    done, _ = await asyncio.wait({task}, timeout=timeout_s)
    if not done:
        task.cancel()
        logger.warning("a peer connection did not close within %.0f s", timeout_s)
        return False
    if error := task.exception():
        logger.debug("closing a peer connection: %r", error)
    return True
