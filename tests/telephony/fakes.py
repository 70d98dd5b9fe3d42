"""An agent side without media, and a line on a fake gateway."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rtc_agent.call.state import EndReason
from rtc_agent.clock import MonotonicClock
from rtc_agent.errors import RtcAgentError
from rtc_agent.telephony.agent_side import AgentLeg, LegOwner, LegReport
from rtc_agent.telephony.config import DialRule, TelephonySettings
from rtc_agent.telephony.phone_line import SPARE_HANDLES, PhoneLine
from tests.telephony.fake_janus import Body, FakeJanus, fake_janus

ANSWER = """v=0
o=- 1 1 IN IP4 0.0.0.0
s=-
t=0 0
m=audio 9 UDP/TLS/RTP/SAVPF 0
a=rtpmap:0 PCMU/8000
a=mid:audio
a=sendrecv
"""
OFFER = {"type": "offer", "sdp": ANSWER}


class FakeLeg:
    """Records what the telephone's side does with it."""

    def __init__(self, owner: LegOwner, rule: DialRule, ready: bool) -> None:
        self.owner = owner
        self.rule = rule
        self.call_id = "call-1"
        self.sdp = ANSWER
        self.ready = asyncio.Event()
        if ready:
            self.ready.set()
        self.started = False
        self.accepted: list[str] = []
        self.candidates: list[str | None] = []
        self.keys: list[str] = []
        self.holds: list[bool] = []
        self.reason: EndReason | None = None

    @property
    def ended(self) -> bool:
        return self.reason is not None

    async def prepared(self) -> None:
        await self.ready.wait()

    async def accept(self, answer_sdp: str) -> None:
        self.accepted.append(answer_sdp)

    async def add_candidate(
        self, candidate: str | None, sdp_mid: str | None, sdp_mline_index: int | None
    ) -> None:
        self.candidates.append(candidate)

    def start(self) -> None:
        self.started = True

    def press(self, key: str) -> None:
        self.keys.append(key)

    def set_held(self, held: bool) -> None:
        self.holds.append(held)

    def end(self, reason: EndReason) -> None:
        if self.reason is None:
            self.reason = reason
            self.ready.set()
            asyncio.get_running_loop().call_soon(self.owner.on_leg_ended, reason)

    def report(self) -> LegReport:
        return LegReport("PCMU", {"packets_lost": 0.0})


class FakeAgents:
    """Makes legs, or refuses."""

    def __init__(self) -> None:
        self.legs: list[FakeLeg] = []
        self.refuse: RtcAgentError | None = None
        self.ready = True
        self.checked: list[DialRule] = []

    def check(self, rule: DialRule) -> None:
        self.checked.append(rule)

    async def answer(
        self, offer_sdp: str, rule: DialRule, owner: LegOwner, wait_s: float
    ) -> AgentLeg:
        return await self.offer(rule, owner, wait_s)

    async def offer(self, rule: DialRule, owner: LegOwner, wait_s: float) -> AgentLeg:
        await asyncio.sleep(0)
        if self.refuse is not None:
            raise self.refuse
        self.legs.append(FakeLeg(owner, rule, self.ready))
        return self.legs[-1]

    def facts(self) -> dict[str, Any]:
        return {"agent": "fake"}


@dataclass
class SipPlugin:
    """Answers the plugin's requests as the gateway does when all goes well."""

    register: str = "registered"
    refusals: dict[str, str] = field(default_factory=dict)
    """Request → the gateway's words against it."""
    silent: set[str] = field(default_factory=set)
    """Requests that get no event, as the gateway does with what comes too late."""

    def __call__(self, handle: int, body: Body, jsep: object) -> dict[str, Any] | None:
        name = body["request"]
        if name in self.silent:
            return None
        if name in self.refusals:
            return {"error_code": 499, "error": self.refusals[name]}
        match name:
            case "register" if body.get("type") == "helper":
                return {"event": "registered", "helper": True, "master_id": body["master_id"]}
            case "register":
                return {"event": self.register, "master_id": 77, "code": 403, "reason": "Forbidden"}
            case "accept":
                return {"event": "accepted"}
            case "decline" | "hangup":
                return {"event": "declining" if name == "decline" else "hangingup"}
            case "call":
                return {"event": "calling", "call_id": body["call_id"]}
            case _:
                return {"event": name}


@dataclass
class FakeBench:
    """A registered line on a fake gateway."""

    fake: FakeJanus
    plugin: SipPlugin
    agents: FakeAgents
    line: PhoneLine
    folder: Path

    @property
    def handles(self) -> list[int]:
        return list(self.line._handles)

    async def incoming(
        self, index: int = 0, call_id: str = "c1", called: str = "agent", **fields: Any
    ) -> int:
        """A telephone calls; returns the handle that has the call."""
        handle = self.handles[index]
        fields.setdefault("jsep", OFFER)
        await self.fake.sip(
            handle,
            "incomingcall",
            call_id,
            username="sip:bob@example.org",
            callee=f"sip:{called}@example.com",
            **fields,
        )
        return handle

    async def asked(self, request: str, count: int = 1) -> dict[str, Any]:
        """The newest plugin request of that name, once there are so many."""
        await self.fake.wait_for(lambda: len(self.all(request)) >= count)
        return self.all(request)[-1]

    def all(self, request: str) -> list[dict[str, Any]]:
        return [
            r
            for r in self.fake.requests
            if r["janus"] == "message" and r["body"]["request"] == request
        ]


@contextlib.asynccontextmanager
async def fake_bench(
    folder: Path, *, ready: bool = True, plugin: SipPlugin | None = None, **settings: Any
) -> AsyncIterator[FakeBench]:
    plugin = plugin or SipPlugin()
    async with fake_janus(answer=plugin) as fake:
        fields: dict[str, Any] = {
            "janus": fake.gateway.url,
            "password": "secret",
            "lines": 2,
            "retry_limit_s": 0.05,
            "cdr_file": folder / "cdr.jsonl",
            **settings,
        }
        telephony = TelephonySettings(**fields)
        agents = FakeAgents()
        line = PhoneLine(telephony, agents, MonotonicClock())
        line.start()
        bench = FakeBench(fake, plugin, agents, line, folder)
        try:
            if ready:
                handles = telephony.lines + SPARE_HANDLES
                await fake.wait_for(lambda: line.status().ready and len(bench.handles) == handles)
            yield bench
        finally:
            await line.aclose()
