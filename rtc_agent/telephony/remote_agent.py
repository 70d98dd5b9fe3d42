"""Agent legs on other servers: each telephone call becomes a WHIP session there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import urljoin

import aiohttp

from rtc_agent.call.state import EndReason
from rtc_agent.errors import (
    ConfigError,
    EngineFailed,
    InvalidOffer,
    ServerFull,
    ServerUnreachable,
    UnsupportedOffer,
)
from rtc_agent.protocol.sdp import Description
from rtc_agent.protocol.telephone_sdp import only_best_codec
from rtc_agent.telephony.agent_side import AgentLeg, LegOwner, LegReport
from rtc_agent.telephony.config import DialRule

log = logging.getLogger(__name__)

ANSWER_S = 10.0
"""Longest wait for a server's answer."""
SDP_TYPE = "application/sdp"


class RemoteAgents:
    """Servers in turn; one that is full or does not answer is passed over.

    Media flows between the gateway and the server, not through this process. What a WHIP session
    cannot tell stays here: keys are counted, but do not reach the agent, and a call on hold is
    only silent to it. Nor can a server be asked for an offer: calls out, and calls that come
    without an offer, need an agent in this process.
    """

    def __init__(
        self, servers: Sequence[str], codecs: Sequence[str], key: str | None = None
    ) -> None:
        """
        Args:
            key: what the servers want as bearer, where they want one.
        """
        if not servers:
            raise ConfigError("The bridge needs at least one server (--server URL).")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._servers = list(servers)
        self._codecs = codecs
        self._next = 0
        self._http: aiohttp.ClientSession | None = None

    def check(self, rule: DialRule) -> None:
        """A server says itself, for each call, what it does not have."""

    async def answer(
        self, offer_sdp: str, rule: DialRule, owner: LegOwner, wait_s: float
    ) -> AgentLeg:
        offer = only_best_codec(offer_sdp, self._codecs)
        parameters = {"voice": rule.voice, "persona": rule.persona}
        query = {name: value for name, value in parameters.items() if value}
        full: Exception = ServerUnreachable("No server answers.")
        for _ in self._servers:
            server = self._servers[self._next % len(self._servers)]
            self._next += 1
            try:
                return await self._place(server, offer, query, owner)
            except (ServerFull, ServerUnreachable) as error:
                log.warning("%s: %s", server, error)
                # That one is full says more than that another does not answer.
                full = error if isinstance(error, ServerFull) else full
        if isinstance(full, ServerFull):
            raise full
        raise EngineFailed(str(full))

    async def offer(self, rule: DialRule, owner: LegOwner, wait_s: float) -> AgentLeg:
        raise UnsupportedOffer("A server elsewhere makes no offers; run the phone line in `serve`.")

    def facts(self) -> dict[str, Any]:
        return {"servers": list(self._servers)}

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _place(
        self, server: str, offer: str, query: dict[str, str], owner: LegOwner
    ) -> AgentLeg:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=ANSWER_S), headers=self._headers
            )
        url = f"{server.rstrip('/')}/whip"
        try:
            async with self._http.post(
                url, params=query, data=offer, headers={"Content-Type": SDP_TYPE}
            ) as response:
                text = await response.text(errors="replace")
                status, location = response.status, response.headers.get("Location", "")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ServerUnreachable(f"it does not answer: {str(error) or 'no reply'}") from error
        match status:
            case 201 if location:
                return RemoteLeg(self._http, urljoin(url, location), text, owner)
            case 503:
                raise ServerFull("it takes no further call at the moment")
            case 401 | 403:
                raise ServerUnreachable(f"it wants another key ({status}); see RTC_AGENT_KEY")
            case 415 | 422 | 406:
                raise UnsupportedOffer(f"{server} cannot answer the offer ({status}).")
            case 400:
                raise InvalidOffer(f"{server} refuses the call ({status}): {text[:200]}")
            case _:
                raise ServerUnreachable(f"it answers {status} where WHIP is expected")


class RemoteLeg:
    """One WHIP session."""

    def __init__(self, http: aiohttp.ClientSession, url: str, sdp: str, owner: LegOwner) -> None:
        self._http = http
        self._url = url
        self._sdp = sdp
        self._owner = owner
        self._ended = False
        self._task: asyncio.Task[None] | None = None

    @property
    def call_id(self) -> str:
        """The server alone knows its call's public id."""
        return ""

    @property
    def sdp(self) -> str:
        return self._sdp

    @property
    def ended(self) -> bool:
        return self._ended

    async def prepared(self) -> None:
        """The server says nothing of it: the telephone is answered at once."""

    async def accept(self, answer_sdp: str) -> None:
        raise UnsupportedOffer("This leg has answered already.")

    async def add_candidate(
        self, candidate: str | None, sdp_mid: str | None, sdp_mline_index: int | None
    ) -> None:
        """The gateway's candidates are in its offer; the server learns others from its checks."""

    def start(self) -> None:
        """The server starts when media flows."""

    def press(self, key: str) -> None:
        log.info("a key was pressed; the server cannot be told")

    def set_held(self, held: bool) -> None:
        """The server hears silence."""

    def end(self, reason: EndReason) -> None:
        if not self._ended:
            self._ended = True
            self._task = asyncio.get_running_loop().create_task(self._delete(reason))

    def report(self) -> LegReport:
        audio = [s for s in Description.parse(self._sdp).sections if s.kind == "audio"]
        names = [n.partition("/")[0] for s in audio for n in s.codec_names().values()]
        return LegReport(codec=names[0] if names else None)

    async def _delete(self, reason: EndReason) -> None:
        try:
            async with self._http.delete(self._url):
                pass
        except (aiohttp.ClientError, TimeoutError) as error:
            # The connection to the gateway ends too, and with it the server's call.
            log.debug("a session could not be ended: %s", error)
        self._owner.on_leg_ended(reason)
