"""What a replica lets fronts reach: the calls that it holds, and how it is doing."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from rtc_agent.call.holder import Holder
from rtc_agent.clock import Clock, MonotonicClock
from rtc_agent.cluster.ids import prefix_of
from rtc_agent.cluster.wishes import Remembered
from rtc_agent.errors import Forbidden, ServerDraining
from signaling.bodies import read_body
from signaling.errors import answer_errors
from signaling.front import LOOK_TIMEOUT_S, Front
from signaling.parts import Access
from signaling.scopes import begins_a_call

SECRET_HEADER = "X-Rtc-Agent-Cluster"
PROMPT_HEADER = "X-Rtc-Agent-Prompt"
"""Name of the prompt that a call is to begin with, worked out by the front that places it."""
STATE = "/internal/replica"
RETRY_AFTER_S = 2
FRESH_S = 0.2
"""What fronts are told is not older than this, and what the engine tells its workers."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """How a replica is doing, as it tells every front."""

    id: str
    ready: bool
    detail: str
    """Why it is not ready; empty when it is."""
    draining: bool
    slots: int
    slots_free: int
    calls: int
    prompts: tuple[str, ...] = ()
    """Names of prompts that calls here began with lately."""
    holders: tuple[Holder, ...] = ()
    """Of its calls, where there are limits that need them."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ReplicaState:
        lists = {
            "prompts": tuple(fields["prompts"]),
            "holders": tuple(Holder(**each) for each in fields["holders"]),
        }
        return cls(**{**fields, **lists})


class ReplicaFront(Front):
    """The front of one replica's workers, for the cluster's fronts and nobody else.

    They bring the cluster's secret; who does is believed where a client is, as processes of one
    server believe each other over their local sockets.
    """

    def __init__(
        self,
        replica_id: str,
        sockets: Mapping[str, Path],
        access: Access,
        secret: str,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or MonotonicClock()
        super().__init__(sockets, access, clock, prefix=prefix_of(replica_id))
        self._clock = clock
        self._looked_s = clock.now()
        self._id = replica_id
        self._secret = secret
        self._prompts = Remembered()
        self._placing = 0
        self._engine: dict[str, Any] = {}
        self.draining = False

    def app(self) -> web.Application:
        app = super().app()
        # Errors of the gate are answered as all others are.
        app.middlewares.insert(app.middlewares.index(answer_errors) + 1, self._gate())
        return app

    @property
    def calls(self) -> int:
        return sum(worker.calls for worker in self._workers.values())

    def state(self) -> ReplicaState:
        alive = [worker for worker in self._workers.values() if worker.alive]
        engine = self._engine if alive else {}
        return ReplicaState(
            id=self._id,
            ready=bool(engine.get("ready")),
            detail=str(engine.get("detail", "No media worker answers.")),
            draining=self.draining,
            slots=int(engine.get("slots", 0)),
            slots_free=int(engine.get("slots_free", 0)),
            calls=self.calls,
            prompts=tuple(self._prompts.names),
            holders=tuple(h for worker in self._workers.values() for h in worker.holders),
        )

    async def look(self) -> None:
        """See which workers live, how many calls each has, and what the engine can take."""
        await super().look()
        self._looked_s = self._clock.now()
        timeout = aiohttp.ClientTimeout(total=LOOK_TIMEOUT_S)
        for worker in self._workers.values():
            if not worker.alive:
                continue
            try:
                async with worker.http.get("http://worker/readyz", timeout=timeout) as answer:
                    self._engine = await answer.json()
                    return
            except (aiohttp.ClientError, TimeoutError, ValueError):
                continue
        self._engine = {}

    async def is_empty(self) -> bool:
        """Whether no call is left; asked of the workers now, not remembered."""
        if self._placing:
            return False
        await super().look()
        return self.calls == 0

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        if request.path == STATE:
            if self._clock.now() - self._looked_s > FRESH_S:
                await self.look()
            return web.json_response(self.state().to_json())
        if not begins_a_call(request.method, request.path):
            return await super()._pass_on(request)
        if self.draining and self._owner(request, await read_body(request)) is None:
            raise ServerDraining(
                "This server takes no new calls; another will.", retry_after_s=RETRY_AFTER_S
            )
        self._placing += 1
        try:
            response = await super()._pass_on(request)
        finally:
            self._placing -= 1
        if response.status < 300:
            self._prompts.add(request.headers.get(PROMPT_HEADER) or None)
        return response

    def _gate(self) -> Middleware:
        @web.middleware
        async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
            given = request.headers.get(SECRET_HEADER, "")
            if not hmac.compare_digest(given.encode("utf-8", "replace"), self._secret.encode()):
                raise Forbidden("This address is for the cluster's own fronts.")
            # A request without a peer is taken to come from a process of this server, and the
            # address that it names to be the client's.
            return await handler(request.clone(remote=""))

        return gate
