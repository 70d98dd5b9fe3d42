"""What a load balancer, a page and a person ask: alive, ready, and what is this."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiohttp import web

from rtc_agent import __version__
from rtc_agent.errors import NoSample
from signaling.guard import GUARD, HOLDER
from signaling.keyring import Scope
from signaling.parts import PARTS


async def healthz(request: web.Request) -> web.Response:
    """The process answers; with how many calls it holds."""
    return web.json_response({"status": "ok", "calls": len(request.app[PARTS].registry)})


async def holders(request: web.Request) -> web.Response:
    """On whose behalf the calls here are; for this server's own front."""
    return web.json_response([asdict(call.holder) for call in request.app[PARTS].registry])


async def readyz(request: web.Request) -> web.Response:
    """Calls can be taken; 503 with the reason when not."""
    parts = request.app[PARTS]
    status = parts.registry.engine.status()
    detail = parts.why_not_ready()
    facts: dict[str, Any] = {"slots": status.slots, "slots_free": status.slots_free}
    if parts.phone_status is not None:
        phone = parts.phone_status()
        facts["phone"] = {"ready": phone.ready, "detail": phone.detail}
    return web.json_response(
        {"ready": not detail, "detail": detail, **facts}, status=503 if detail else 200
    )


async def voice_sample(request: web.Request) -> web.StreamResponse:
    """A short listen to a voice, for those who may call."""
    voice = request.match_info["voice"]
    path = request.app[PARTS].registry.engine.info.voice_samples.get(voice)
    if path is None or not await asyncio.to_thread(Path(path).is_file):
        raise NoSample(f"There is no sample of a voice {voice[:64]!r}.")
    return web.FileResponse(path, headers={"Content-Type": "audio/wav"})


async def info(request: web.Request) -> web.Response:
    """The agent, what it can do, and how much room there is. Who may not call learns of no relay,
    nor does anybody with a wrong key: the page shows this before it is given one. Operators see how
    this side's relays do."""
    parts = request.app[PARTS]
    may_call = request.app[GUARD].allows(request, Scope.CALL)
    servers = parts.ice_for(request[HOLDER].key) if may_call else []
    relays = parts.relays() if request.app[GUARD].allows(request, Scope.ADMIN) else {}
    engine = parts.registry.engine
    status = engine.status()
    about = engine.info
    return web.json_response(
        {
            "version": __version__,
            "agent": about.agent,
            "description": about.description,
            "notice": about.notice,
            "capabilities": {
                "text": True,
                "speech_events": True,
                "trickle": True,
                "dtmf": True,
                "recording": parts.recordings is not None,
                "phone": parts.phone_status is not None,
            },
            "voices": list(about.voices),
            "default_voice": about.default_voice,
            "voice_samples": sorted(about.voice_samples),
            "takes_persona": about.takes_persona,
            "follows_persona": about.follows_persona,
            "persona_names": list(about.persona_names),
            "persona_max_chars": about.persona_max_chars,
            "slots": {"total": status.slots, "free": status.slots_free},
            "recording_days": None if parts.recordings is None else parts.recordings.days,
            "reconnect_grace_s": parts.registry.limits.reconnect_s,
            "engine": {
                "ready": status.ready,
                "banks": status.banks,
                "ticks": status.ticks,
                "skipped_ticks": status.skipped_ticks,
                "step_ms": {"p50": status.step_ms_p50, "p99": status.step_ms_p99},
            },
            "needs_key": not may_call,
            "ice_servers": [s.model_dump(exclude_none=True) for s in servers],
            "relays": {relay: asdict(state) for relay, state in relays.items()},
        },
        headers={"Cache-Control": "no-store"},
    )
