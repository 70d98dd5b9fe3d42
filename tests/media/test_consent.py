"""A connection lasts as long as its peer answers, however slowly, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aioice.candidate
import aioice.ice
import aioice.stun
import pytest

from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media import consent

PASSWORD = "a" * 22
RTO_S = 0.008


class Peer:
    """Answers questions after a while, or never, in place of a socket."""

    def __init__(self, delay_s: Callable[[int], float | None]) -> None:
        """`delay_s` of the number of times that this question was put before; None: no answer."""
        self._delay_s = delay_s
        self._puts: dict[bytes, int] = {}
        self.protocol: Any = None

    @property
    def questions(self) -> int:
        return len(self._puts)

    def sendto(self, data: bytes, addr: tuple[str, int]) -> None:
        question = aioice.stun.parse_message(data)
        before = self._puts.get(question.transaction_id, 0)
        self._puts[question.transaction_id] = before + 1
        if (delay_s := self._delay_s(before)) is not None:
            answer = aioice.stun.Message(
                aioice.stun.Method.BINDING,
                aioice.stun.Class.RESPONSE,
                transaction_id=question.transaction_id,
            )
            answer.attributes["XOR-MAPPED-ADDRESS"] = addr
            answer.add_message_integrity(PASSWORD.encode())
            asyncio.get_running_loop().call_later(
                delay_s, self.protocol.datagram_received, bytes(answer), addr
            )

    def close(self) -> None:
        self.protocol.connection_lost(None)


def connected(peer: Peer) -> Any:
    """A connection whose peer that is, and whose consent is being asked for."""
    shim.prepare()
    connection: Any = aioice.ice.Connection(ice_controlling=True)
    connection.remote_username, connection.remote_password = "peer", PASSWORD
    protocol = aioice.ice.StunProtocol(connection)
    peer.protocol = protocol
    protocol.connection_made(peer)  # type: ignore[arg-type]
    place = "0 1 udp 1 127.0.0.1 9 typ host"
    protocol.local_candidate = aioice.candidate.Candidate.from_sdp(place)
    connection._protocols.append(protocol)
    remote = aioice.candidate.Candidate.from_sdp(place)
    connection._nominated[1] = aioice.ice.CandidatePair(protocol, remote)
    connection._query_consent_task = asyncio.create_task(connection.query_consent())
    return connection


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything 60 times as fast."""
    monkeypatch.setattr(aioice.stun, "RETRY_RTO", RTO_S)
    monkeypatch.setattr(consent, "INTERVAL_S", 10 * RTO_S)


@pytest.mark.parametrize(
    "delay_s",
    [
        pytest.param(lambda before: 2 * RTO_S, id="a second"),
        pytest.param(lambda before: 24 * RTO_S, id="twelve seconds"),
        pytest.param(lambda before: 0.0 if before > 1 else None, id="two of each lost"),
    ],
)
async def test_slow_answers_and_lost_questions_end_nothing(
    delay_s: Callable[[int], float | None],
) -> None:
    peer = Peer(delay_s)
    connection = connected(peer)
    await until(lambda: peer.questions > 2 * consent.QUESTIONS)
    assert not connection._closing
    await connection.close()


async def test_a_peer_who_has_gone_is_noticed() -> None:
    peer = Peer(lambda before: None)
    connection = connected(peer)
    await until(lambda: connection._closing)
    assert peer.questions == consent.QUESTIONS


async def test_an_answer_makes_good_for_those_that_did_not_come() -> None:
    peer = Peer(lambda before: 0.0 if peer.questions % consent.QUESTIONS == 0 else None)
    connection = connected(peer)
    await until(lambda: peer.questions > 2 * consent.QUESTIONS)
    assert not connection._closing
    await connection.close()


def test_nothing_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert consent.check() == []

    async def moved(self: object) -> None:
        """A version that asks in another way."""

    monkeypatch.setattr(aioice.ice.Connection, "connect", moved)
    assert any("query_consent" in name for name in shim.check())
