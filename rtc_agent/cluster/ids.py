"""Ids that say which replica holds a call: what a front needs to know is in what the client brings.

A replica's id stands in front of every id that it gives out: session ids, WHIP and WHEP resources,
public call ids. It is made anew whenever the replica starts, so that an id of a replica that died
leads nowhere, and never to its successor.
"""

from __future__ import annotations

import json
import re
import secrets

REPLICA_ID = r"r[0-9a-f]{8}"
_OWNED = re.compile(rf"(?:^|[/=])(?:call-)?({REPLICA_ID})-w\d+-[\w-]+")


def new_replica_id() -> str:
    """An id that no other replica had."""
    return f"r{secrets.token_hex(4)}"


def prefix_of(replica_id: str) -> str:
    """What ids of that replica's calls begin with."""
    return f"{replica_id}-"


def replica_of(session: str) -> str | None:
    """The replica that gave out this id."""
    found = _OWNED.match(session)
    return found[1] if found else None


def named_in_address(path_qs: str) -> str | None:
    """The replica of the call that an address is about, if it is about one."""
    found = _OWNED.search(path_qs)
    return found[1] if found else None


def named_in_body(body: bytes) -> str | None:
    """The replica of the call that a JSON body names as `pc_id`, if it names one."""
    if b'"pc_id"' not in body:
        return None
    try:
        pc_id = json.loads(body).get("pc_id")
    except (ValueError, AttributeError, RecursionError):
        return None
    return replica_of(pc_id) if isinstance(pc_id, str) else None
