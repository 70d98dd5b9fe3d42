"""Where a peer connection may look for a network path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtc_agent.media.relay_health import RelayHealth


@dataclass(frozen=True, slots=True)
class IceServer:
    """A STUN or TURN server."""

    urls: tuple[str, ...]
    username: str | None = None
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class IceSettings:
    """How candidates are gathered. Nothing outside this machine is asked unless named here."""

    hosts: tuple[str, ...] = ()
    """The only local addresses offered, loopback allowed; empty is every interface but loopback."""
    servers: tuple[IceServer, ...] = ()
    relay_only: bool = False
    """Offer relayed candidates alone; needs a TURN server."""
    ports: tuple[int, int] | None = None
    """First and last UDP port for local candidates; None lets the system choose. Each call takes
    one on each address, until its end."""
    public_ip: str | None = None
    """The address announced in place of local IPv4 ones, behind one-to-one NAT."""
    relays: RelayHealth | None = field(default=None, compare=False)
    """Knows which relays to leave out, and is told how they do; None tries them every time."""
