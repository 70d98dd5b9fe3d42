"""A cluster's status for a person."""

from __future__ import annotations

from collections.abc import Iterator

from rtc_agent.cluster.plan import Values


def lines(status: Values) -> Iterator[str]:
    """What `Controller.status` gives, one part a line."""
    wanted = status["wanted"]
    yield (
        f"generation {status['generation']}; wanted: {wanted['replicas']} replicas, "
        f"{wanted['fronts']} fronts"
    )
    for part in status["replicas"]:
        yield _replica(part)
    for part in status["fronts"]:
        words = (f"front    {part.get('url') or '–':24} {part['phase']:9}", part.get("detail", ""))
        yield "  ".join(filter(None, words)).rstrip()
    if status["failure"]:
        yield f"failure: {status['failure']}"


def _replica(part: Values) -> str:
    words = (
        f"replica  {part.get('id') or '–':24} {part['phase']:9}",
        f"{part.get('calls', 0)} calls",
        f"{part.get('slots_free', 0)} of {part.get('slots', 0)} slots free",
        f"on {part['node']}" if part.get("node") else "",
        f"generation {part['generation']}",
        f"started again {part['restarts']} times" if part["restarts"] else "",
        part.get("detail", ""),
    )
    return "  ".join(filter(None, words))
