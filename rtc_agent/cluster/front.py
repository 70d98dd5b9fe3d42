"""The application that a cluster's callers reach.

It holds no call and knows none: what is about a call carries its replica's name, and a new call is
tried on one replica after the other, for only a replica knows whether it has a slot.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

import aiohttp
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import generate_latest

from rtc_agent.call.holder import Holder
from rtc_agent.clock import Clock, MonotonicClock
from rtc_agent.cluster.figures import ClusterFigures, merged
from rtc_agent.cluster.ids import named_in_address, named_in_body, replica_of
from rtc_agent.cluster.plan import Member, Values
from rtc_agent.cluster.replica_front import PROMPT_HEADER, SECRET_HEADER
from rtc_agent.cluster.summary import info_of, ready_of
from rtc_agent.cluster.view import LOOK_EVERY_S, LOOK_TIMEOUT_S, Placing, Replica, View
from rtc_agent.cluster.wishes import prompt_of
from rtc_agent.errors import (
    CallLost,
    EngineFailed,
    RtcAgentError,
    ServerDraining,
    UnknownCall,
)
from rtc_agent.loop_watch import LoopWatch
from signaling.app import MAX_BODY_BYTES, page_files, page_folder
from signaling.bodies import read_body
from signaling.client_secrets import PREFIX, ClientSecrets
from signaling.errors import answer_errors
from signaling.guard import HOLDER, Guard, bearer, guarded
from signaling.metrics import ProcessMetrics, exposition
from signaling.origins import add_cross_origin_headers, cross_origin
from signaling.parts import Access
from signaling.passing import forwarded, pass_request, pass_socket, refused_socket, wants_socket
from signaling.scopes import INTERNAL, begins_a_call

CONNECT_S = 2.0
"""A host that does not answer for so long is gone, or its network is."""
LOOK_AGAIN_S = 0.2
PLACE_TIMEOUT_S = 9.0
"""A replica that takes so long hangs; clients wait for an answer little longer."""
MAX_DEATHS = 2
MAX_LET_IN = 10_000
FRESH_S = 0.05
"""How old the count of calls may be that limits go by. Fronts that place within it may both."""
RETRY_AFTER_S = 5
_OFFERS = re.compile(r"/api/offer|/sessions/[^/]+/api/offer")


class ClusterFront:
    """One front. `take` tells it of the replicas there are."""

    def __init__(self, access: Access, secret: str, clock: Clock | None = None) -> None:
        """
        Args:
            access: who is let in. Replicas look at keys again, but limits are kept here.
            secret: what replicas know the cluster's fronts by.
        """
        self._clock = clock = clock or MonotonicClock()
        self._access = access
        self._secret = secret
        self._figures = ProcessMetrics()
        self._watch = LoopWatch(clock, self._figures.loop_lag.observe)
        self._http: aiohttp.ClientSession | None = None
        self._view: View | None = None
        self._members: list[Member] = []
        self._look_task: asyncio.Task[None] | None = None
        self.sockets = 0
        """WebSockets that pass through here."""
        self.status: Callable[[], Awaitable[Values]] | None = None
        """Tells how the cluster is doing."""
        self.guard = Guard(
            access.rules,
            ClientSecrets(access.token_secret, access.wall),
            clock,
            page_files(page_folder()),
            holders=lambda: self._view.holders() if self._view else [],
            has_call=lambda session: replica_of(session) is not None,
        )
        self.guard.refused = self._figures.on_refused
        self.let_in: collections.deque[Holder] = collections.deque(maxlen=MAX_LET_IN)
        """Who has asked for calls here and may, for whoever tells the other fronts."""
        self.guard.let_in = self.let_in.append

    def app(self) -> web.Application:
        app = web.Application(
            middlewares=[
                answer_errors,
                cross_origin(self._access.allowed_origins),
                self._look_before(),
                guarded(self.guard),
            ],
            client_max_size=MAX_BODY_BYTES,
        )
        app.on_response_prepare.append(add_cross_origin_headers)
        app.router.add_route("*", "/{path:.*}", self._answer)
        app.on_startup.append(self._start)
        app.on_cleanup.append(self._stop)
        return app

    async def take(self, members: Iterable[Member]) -> None:
        """These are the replicas from now on."""
        self._members = list(members)
        if self._view is not None:
            await self._view.look(self._view.take(self._members))

    async def _start(self, _: web.Application) -> None:
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=PLACE_TIMEOUT_S, sock_connect=CONNECT_S),
            headers={SECRET_HEADER: self._secret},
            auto_decompress=False,
        )
        self._view = View(self._http, self._clock)
        self._watch.start()
        await self.take(self._members)
        self._look_task = asyncio.create_task(self._look_again_and_again(), name="look")

    async def _stop(self, _: web.Application) -> None:
        if self._look_task is not None:
            self._look_task.cancel()
        await self._watch.aclose()
        if self._http is not None:
            await self._http.close()

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.view.look()

    @property
    def view(self) -> View:
        assert self._view is not None, "there while the application runs"
        return self._view

    @property
    def http(self) -> aiohttp.ClientSession:
        assert self._http is not None, "there while the application runs"
        return self._http

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith(INTERNAL):
            raise UnknownCall(f"There is nothing at {request.path}.")
        body = await read_body(request)
        if (owner := self._owner(request, body)) is not None:
            return await self._pass_to_owner(request, body, owner)
        match request.method, request.path:
            case _, "/healthz":
                return web.json_response({"status": "ok"})
            case _, "/readyz":
                return ready_of(self.view)
            case _, "/v1/info":
                return await info_of(self.view, await self._ask_one(request))
            case _, "/metrics":
                return await self._metrics(request)
            case "GET", "/v1/calls":
                return await self._calls(request)
            case "GET", "/v1/cluster" if self.status is not None:
                return _fresh(await self.status())
        return await self._place(request, body, request.path_qs)

    def _look_before(self) -> Middleware:
        """Limits on calls at once count those that came through other fronts too."""

        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            counts = self.guard.counts_calls and begins_a_call(request.method, request.path)
            if counts and self._clock.now() - self.view.looked_s > FRESH_S:
                await self.view.look()
            return await handler(request)

        return middleware

    def _owner(self, request: web.Request, body: bytes) -> str | None:
        """The replica that holds the call this is about. A body that names a call knows better than
        the address of the session that the call began with, for it may have begun elsewhere."""
        in_body = named_in_body(body) if _OFFERS.fullmatch(request.path) else None
        return in_body or named_in_address(request.path_qs)

    async def _pass_to_owner(
        self, request: web.Request, body: bytes, owner: str
    ) -> web.StreamResponse:
        replica = self.view.get(owner)
        path = request.path_qs
        if named_in_address(path) not in (None, owner):
            path = "/api/offer"
        if replica is not None and not (_is_offer(request) and self.view.is_cut_off(replica)):
            try:
                answer = await self._pass(request, body, replica, path)
            except (aiohttp.ClientError, TimeoutError) as error:
                replica.alive = False
                if isinstance(error, TimeoutError) or not await self.view.is_gone(replica):
                    raise self._away() from error
            else:
                if answer.status != 503 or not _is_complete(request, body):
                    return answer
                # The session was started there, and by now it has no slot.
                return await self._place(request, body, "/api/offer")
        comes_back = request.path == "/api/offer" or named_in_body(body) is not None
        if _is_offer(request) and (comes_back or _is_complete(request, body)):
            # Whoever comes back with the name of a call that is no more begins a new one.
            return await self._place(request, body, "/api/offer")
        raise CallLost("The server that held this call has gone, and the call with it; call again.")

    async def _place(self, request: web.Request, body: bytes, path: str) -> web.StreamResponse:
        """Try one replica after the other. What a full one answers is the caller's answer only when
        all are."""
        begins = begins_a_call(request.method, request.path)
        prompt = prompt_of(request, body, self._secret_session(request)) if begins else None
        refusal: web.StreamResponse | None = None
        died = 0
        async for replica in self._candidates(prompt):
            try:
                answer = await self._try(request, body, replica, path, prompt, begins)
            except aiohttp.ClientConnectorError:
                replica.alive = False  # Nothing was sent, so another may have it.
                continue
            except (aiohttp.ClientError, TimeoutError) as error:
                # What it had begun died with it, so another may have it too; but not a third one,
                # in case it was this request that they died of.
                replica.alive = False
                died += 1
                if died == MAX_DEATHS or isinstance(error, TimeoutError):
                    raise self._away() from error
                continue
            if not begins or answer.status != 503:
                return answer
            refusal = answer
        if refusal is not None:
            return refusal
        if any(replica.member.draining for replica in self.view):
            raise ServerDraining(
                "All servers are being stopped and take no new calls.", retry_after_s=RETRY_AFTER_S
            )
        raise EngineFailed("No server can answer at the moment.", retry_after_s=RETRY_AFTER_S)

    async def _candidates(self, prompt: str | None) -> AsyncIterator[Replica]:
        """As `View.candidates`; before nobody is left, what has changed since the last look."""
        tried = set()
        for replica in self.view.candidates(prompt):
            tried.add(replica.id)
            yield replica
        if self._clock.now() - self.view.looked_s > LOOK_AGAIN_S:
            await self.view.look()
            for replica in self.view.candidates(prompt):
                if replica.free > 0 and replica.id not in tried:
                    yield replica

    async def _try(
        self,
        request: web.Request,
        body: bytes,
        replica: Replica,
        path: str,
        prompt: str | None,
        begins: bool,
    ) -> web.StreamResponse:
        """What the replica answers. A call that begins there counts from now on, not only once the
        replica is next looked at."""
        if not begins:
            return await self._pass(request, body, replica, path)
        placing = Placing(request[HOLDER])
        replica.placed.append(placing)

        def begun() -> None:
            placing.done_s = placing.done_s or self._clock.now()

        try:
            answer = await self._pass(request, body, replica, path, prompt, begun)
            if answer.status < 300:
                begun()
            return answer
        finally:
            if placing.done_s is None:
                replica.placed.remove(placing)

    async def _pass(
        self,
        request: web.Request,
        body: bytes,
        replica: Replica,
        path: str,
        prompt: str | None = None,
        opened: Callable[[], None] = lambda: None,
    ) -> web.StreamResponse:
        address = f"{replica.member.url}{path}"
        headers = _headers(request)
        if prompt is not None:
            headers[PROMPT_HEADER] = prompt
        if not wants_socket(request):
            return await pass_request(request, self.http, address, body, headers)
        self.sockets += 1
        try:
            return await pass_socket(request, self.http, address, headers, opened)
        except aiohttp.WSServerHandshakeError as refusal:
            return refused_socket(refusal)
        finally:
            self.sockets -= 1

    def _secret_session(self, request: web.Request) -> Mapping[str, object]:
        """What the client secret that came along says of the session; the guard has read it."""
        key = bearer(request)
        return self.guard.secrets.read(key).session if key.startswith(PREFIX) else {}

    def _away(self) -> RtcAgentError:
        return EngineFailed("The server that was to answer went away; try again.", retry_after_s=2)

    async def _metrics(self, request: web.Request) -> web.Response:
        """Every replica's figures, with whose they are, and the cluster's own."""
        texts = {name: text.decode() for name, text in (await self._ask_all(request)).items()}
        own = generate_latest(self._figures.registry).decode()
        return exposition(merged(texts, own, ClusterFigures.of(self.view)))

    async def _calls(self, request: web.Request) -> web.Response:
        """Every replica's calls, the oldest first."""
        found = [json.loads(text)["calls"] for text in (await self._ask_all(request)).values()]
        calls = sorted(itertools.chain(*found), key=lambda call: -float(call["age_s"]))
        return _fresh({"calls": calls})

    async def _ask_one(self, request: web.Request) -> dict[str, object]:
        """What the first replica that can answer says."""
        for replica in self.view.candidates(None):
            if (answer := await self._ask(request, replica)) is not None:
                found: dict[str, object] = json.loads(answer)
                return found
        raise EngineFailed("No server can answer at the moment.", retry_after_s=RETRY_AFTER_S)

    async def _ask_all(self, request: web.Request) -> dict[str, bytes]:
        """What each replica answers to the same request; who does not answer is left out."""
        replicas = [replica for replica in self.view if replica.alive]
        answers = await asyncio.gather(*(self._ask(request, replica) for replica in replicas))
        return {
            replica.id: answer
            for replica, answer in zip(replicas, answers, strict=True)
            if answer is not None
        }

    async def _ask(self, request: web.Request, replica: Replica) -> bytes | None:
        # The session does not decompress, for answers are passed on as they are.
        headers = {n: v for n, v in _headers(request).items() if n.lower() != "accept-encoding"}
        timeout = aiohttp.ClientTimeout(total=LOOK_TIMEOUT_S)
        address = f"{replica.member.url}{request.path_qs}"
        try:
            async with self.http.get(address, headers=headers, timeout=timeout) as answer:
                return await answer.read() if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError):
            return None


def _headers(request: web.Request) -> dict[str, str]:
    """What goes along of what came: not what fronts and replicas tell each other."""
    ours = {SECRET_HEADER.lower(), PROMPT_HEADER.lower()}
    return {name: value for name, value in forwarded(request).items() if name.lower() not in ours}


def _fresh(body: Values) -> web.Response:
    return web.json_response(body, headers={hdrs.CACHE_CONTROL: "no-store"})


def _is_offer(request: web.Request) -> bool:
    return request.method == "POST" and _OFFERS.fullmatch(request.path) is not None


def _is_complete(request: web.Request, body: bytes) -> bool:
    """Whether this is a started session's first offer that says itself what the call is to be, so
    that it means the same without what the replica was told at the start."""
    starts = _is_offer(request) and named_in_body(body) is None
    return starts and prompt_of(request, body) is not None
