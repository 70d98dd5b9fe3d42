"""`/v1/calls`: what an operator sees of the calls in progress, and how one is ended."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from rtc_agent.call.call import Call
from rtc_agent.call.state import EndReason
from rtc_agent.errors import UnknownCall
from signaling.parts import PARTS


async def get_calls(request: web.Request) -> web.Response:
    """All of them, the oldest first."""
    return _json({"calls": [describe(call) for call in request.app[PARTS].registry]})


async def get_call(request: web.Request) -> web.Response:
    """The one of that public id."""
    return _json(describe(find(request)))


async def delete_call(request: web.Request) -> web.Response:
    """End it; its caller is told that an operator did."""
    find(request).end(EndReason.ENDED_BY_OPERATOR)
    return web.Response(status=204)


def find(request: web.Request) -> Call:
    """The call whose public id the address has."""
    public = request.match_info["call_id"]
    for call in request.app[PARTS].registry:
        if call.ids.public == public:
            return call
    raise UnknownCall("No call of that id is in progress.")


def describe(call: Call) -> dict[str, Any]:
    """The call as an operator sees it; what is said in it is not for him."""
    facts = call.facts()
    times = {"connected": facts.connected_s, "prepared": facts.prepared_s, "live": facts.live_s}
    return {
        "call_id": facts.call_id,
        "state": facts.state,
        "key": facts.holder.key or None,
        "address": facts.holder.address or None,
        "voice": facts.voice,
        "codec": facts.codec,
        "age_s": round(facts.age_s, 1),
        "after_s": {name: None if s is None else round(s, 3) for name, s in times.items()},
        "frames": facts.frames,
        "skipped_frames": facts.skipped_frames,
        "listeners": len(call.listeners),
        "quality": None if facts.quality is None else facts.quality.as_dict(),
    }


def _json(body: dict[str, Any]) -> web.Response:
    return web.json_response(body, headers={"Cache-Control": "no-store"})
