"""ICE servers with credentials of their own for whoever asks (coturn's `use-auth-secret`).

The scheme is that of the TURN REST API draft (draft-uberti-behave-turn-rest-00): the user name has
the time until which it is good, the password is its HMAC-SHA1 under a secret that the TURN server
and this one share.
"""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rtc_agent.config import IceServer, Settings


@dataclass(frozen=True, slots=True)
class IceServers:
    """The ICE servers of the settings; TURN servers without credentials of their own get some."""

    servers: tuple[IceServer, ...] = ()
    secret: str = ""
    ttl_s: int = 3600
    wall: Callable[[], float] = time.time

    @classmethod
    def of(cls, settings: Settings) -> IceServers:
        secret = settings.turn_secret.get_secret_value()
        return cls(tuple(settings.ice_servers), secret, settings.turn_ttl_s)

    def issue(self, user: str = "rtc-agent") -> list[IceServer]:
        """The servers as somebody may use them from now on.

        Args:
            user: a name for the relay's log.
        """
        return [self._with_credentials(server, user) for server in self.servers]

    def _with_credentials(self, server: IceServer, user: str) -> IceServer:
        if not self.secret or server.username or not is_turn(server):
            return server
        username = f"{int(self.wall()) + self.ttl_s}:{user}"
        digest = hmac.digest(self.secret.encode(), username.encode(), "sha1")
        credential = base64.b64encode(digest).decode()
        return server.model_copy(update={"username": username, "credential": credential})


def is_turn(server: IceServer) -> bool:
    """Whether it relays."""
    urls: Iterable[str] = [server.urls] if isinstance(server.urls, str) else server.urls
    return all(url.startswith("turn") for url in urls)
