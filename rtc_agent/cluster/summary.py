"""The whole cluster as one server: what `/readyz` and `/v1/info` say of all replicas together."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import hdrs, web

from rtc_agent.cluster.view import Replica


def ready_of(replicas: Iterable[Replica]) -> web.Response:
    """Calls can be taken somewhere; 503 with the reason when not."""
    known = list(replicas)
    able = [replica for replica in known if replica.takes_calls]
    slots, free = _slots(able)
    detail = "" if able else _why_not(known)
    body = {
        "ready": not detail,
        "detail": detail,
        "slots": slots,
        "slots_free": free,
        "replicas": {"total": len(known), "ready": len(able)},
    }
    return web.json_response(body, status=503 if detail else 200)


async def info_of(replicas: Iterable[Replica], one: dict[str, object]) -> web.Response:
    """What one of them says of itself, with the slots of all.

    Args:
        one: a replica's `/v1/info`; agent, voices and the like are the same everywhere.
    """
    known = list(replicas)
    able = [replica for replica in known if replica.takes_calls]
    slots, free = _slots(able)
    summed = {
        "slots": {"total": slots, "free": free},
        "replicas": {"total": len(known), "ready": len(able)},
    }
    return web.json_response(one | summed, headers={hdrs.CACHE_CONTROL: "no-store"})


def _slots(able: list[Replica]) -> tuple[int, int]:
    states = [replica.state for replica in able if replica.state is not None]
    total = sum(state.slots for state in states)
    return total, sum(max(0, replica.free) for replica in able)


def _why_not(known: list[Replica]) -> str:
    for replica in known:
        if replica.alive and replica.state is not None and replica.state.detail:
            return replica.state.detail
    if any(replica.member.draining for replica in known):
        return "All servers are being stopped."
    return "No server answers." if known else "No server has been started yet."
