"""Places calls on the processes that hold them, and passes on what belongs to a call.

A front knows no call. A new one goes to the worker with the fewest; whatever names a call carries
its worker's name in front of its id, in the path or as `pc_id` in a JSON body.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from prometheus_client import generate_latest

from rtc_agent.call.holder import Holder
from rtc_agent.clock import Clock, MonotonicClock
from rtc_agent.errors import EngineFailed, ServerDraining, UnknownCall
from rtc_agent.loop_watch import LoopWatch
from signaling.app import MAX_BODY_BYTES, page_files, page_folder
from signaling.bodies import read_body
from signaling.client_secrets import ClientSecrets
from signaling.errors import answer_errors
from signaling.front_metrics import FrontFigures, merged
from signaling.guard import HOLDER, Guard, guarded
from signaling.metrics import ProcessMetrics, exposition
from signaling.origins import add_cross_origin_headers, cross_origin
from signaling.parts import Access
from signaling.passing import forwarded, pass_request, pass_socket, refused_socket, wants_socket
from signaling.scopes import HOLDERS, INTERNAL, begins_a_call

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
LOOK_TIMEOUT_S = 2.0
PLACE_TIMEOUT_S = 9.0
"""A worker that takes so long hangs; clients wait for an answer little longer."""
MAX_DEATHS = 2


@dataclass(slots=True)
class Worker:
    """One process that holds calls, as the front last saw it."""

    name: str
    http: aiohttp.ClientSession
    alive: bool = False
    calls: int = 0
    holders: list[Holder] = field(default_factory=list)
    """Of its calls, where there are limits that need them."""


class Front:
    """The application that callers reach."""

    def __init__(
        self,
        sockets: Mapping[str, Path],
        access: Access | None = None,
        clock: Clock | None = None,
        prefix: str = "",
    ) -> None:
        """
        Args:
            sockets: worker name → the local socket where its application listens.
            access: who is let in. Workers look at keys again, but limits are kept here, where
                every request passes.
            prefix: what stands before a worker's name in the ids of its calls.
        """
        access = access or Access()
        self._sockets = sockets
        self._owned = re.compile(rf"(?:^|[/=])(?:call-)?{re.escape(prefix)}(w\d+)-[\w-]+")
        self._origins = access.allowed_origins
        self._figures = ProcessMetrics()
        self._watch = LoopWatch(clock or MonotonicClock(), self._figures.loop_lag.observe)
        self.guard = Guard(
            access.rules,
            ClientSecrets(access.token_secret or secrets.token_bytes(32), access.wall),
            clock or MonotonicClock(),
            page_files(page_folder()),
            holders=lambda: [h for worker in self._workers.values() for h in worker.holders],
            has_call=lambda session: self._owned.match(session) is not None,
        )
        self.guard.refused = self._figures.on_refused
        self._workers: dict[str, Worker] = {}
        self._look_task: asyncio.Task[None] | None = None
        self.stopping = False
        """Its workers are told to end, and what they do not answer nobody will."""
        self.restarts: Callable[[], Mapping[str, int]] = dict
        """How often each process was started again."""

    def app(self) -> web.Application:
        app = web.Application(
            middlewares=[answer_errors, cross_origin(self._origins), guarded(self.guard)],
            client_max_size=MAX_BODY_BYTES,
        )
        app.on_response_prepare.append(add_cross_origin_headers)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        app.on_startup.append(self._start)
        app.on_cleanup.append(self._stop)
        return app

    async def _start(self, _: web.Application) -> None:
        for name, path in self._sockets.items():
            http = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(path), limit=0),
                timeout=aiohttp.ClientTimeout(total=PLACE_TIMEOUT_S),
                auto_decompress=False,
            )
            self._workers[name] = Worker(name, http)
        self._watch.start()
        await self.look()
        self._look_task = asyncio.create_task(self._look_again_and_again())

    async def _stop(self, _: web.Application) -> None:
        if self._look_task is not None:
            self._look_task.cancel()
        await self._watch.aclose()
        for worker in self._workers.values():
            await worker.http.close()

    async def look(self) -> None:
        """See which workers live, and how many calls each has."""
        await asyncio.gather(*(self._look_at(worker) for worker in self._workers.values()))

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()

    async def _look_at(self, worker: Worker) -> None:
        timeout = aiohttp.ClientTimeout(total=LOOK_TIMEOUT_S)
        try:
            async with worker.http.get("http://worker/healthz", timeout=timeout) as response:
                worker.calls = int((await response.json())["calls"])
                worker.alive = response.status == 200
            if self.guard.counts_calls:
                async with worker.http.get(f"http://worker{HOLDERS}", timeout=timeout) as response:
                    worker.holders = [Holder(**each) for each in await response.json()]
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError):
            worker.alive = False

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith(INTERNAL):
            raise UnknownCall(f"There is nothing at {request.path}.")
        body = await read_body(request)
        owner = self._owner(request, body)
        match request.path:
            case "/healthz" if owner is None:
                return web.json_response({"status": "ok"})
            case "/metrics":
                return await self._metrics(request)
            case "/v1/calls" if request.method == "GET":
                return await self._calls(request)
        died = 0
        for worker in self._candidates(owner):
            is_socket = wants_socket(request)
            worker.calls += is_socket or request.method == "POST"
            if self.guard.counts_calls and begins_a_call(request.method, request.path):
                worker.holders.append(request[HOLDER])
            try:
                address, headers = f"http://worker{request.path_qs}", forwarded(request)
                if is_socket:
                    return await pass_socket(request, worker.http, address, headers)
                return await pass_request(request, worker.http, address, body, headers)
            except aiohttp.WSServerHandshakeError as refusal:
                return refused_socket(refusal)
            except aiohttp.ClientConnectorError:
                # Nothing was sent, so another worker may have it.
                worker.alive = False
            except (aiohttp.ClientError, TimeoutError) as error:
                worker.alive = False
                died += 1
                # What a worker that died had begun died with it, so another may have it too; but
                # not a third one, in case it was this request that they died of.
                if owner or died == MAX_DEATHS or isinstance(error, TimeoutError):
                    if self.stopping:
                        raise ServerDraining("This server is being stopped.") from error
                    raise EngineFailed(
                        "The process that was to answer went away; try again.", retry_after_s=2
                    ) from error
        if self.stopping:
            raise ServerDraining("This server is being stopped and takes no new calls.")
        raise EngineFailed("No media process can answer at the moment.", retry_after_s=2)

    async def _metrics(self, request: web.Request) -> web.Response:
        """Every process's figures, with whose they are."""
        texts = {name: text.decode() for name, text in (await self._ask_all(request)).items()}
        texts["front"] = generate_latest(self._figures.registry).decode()
        alive = {worker.name: worker.alive for worker in self._workers.values()}
        return exposition(merged(texts, FrontFigures(alive, self.restarts())))

    async def _calls(self, request: web.Request) -> web.Response:
        """Every worker's calls."""
        found = [json.loads(text)["calls"] for text in (await self._ask_all(request)).values()]
        calls = sorted(itertools.chain(*found), key=lambda call: -float(call["age_s"]))
        return web.json_response({"calls": calls}, headers={"Cache-Control": "no-store"})

    async def _ask_all(self, request: web.Request) -> dict[str, bytes]:
        """What each worker answers to the same request; one that does not answer is left out."""
        timeout = aiohttp.ClientTimeout(total=LOOK_TIMEOUT_S)

        async def ask(worker: Worker) -> tuple[str, bytes] | None:
            try:
                async with worker.http.get(
                    f"http://worker{request.path_qs}", headers=forwarded(request), timeout=timeout
                ) as answer:
                    return (worker.name, await answer.read()) if answer.status == 200 else None
            except (aiohttp.ClientError, TimeoutError):
                return None

        answers = await asyncio.gather(*(ask(worker) for worker in self._workers.values()))
        return dict(answer for answer in answers if answer is not None)

    def _owner(self, request: web.Request, body: bytes) -> str | None:
        """The worker that holds the call this is about, if it is about one."""
        if found := self._owned.search(request.path_qs):
            return found[1]
        if b'"pc_id"' in body:
            try:
                pc_id = json.loads(body).get("pc_id")
            except (ValueError, AttributeError, RecursionError):
                return None
            if isinstance(pc_id, str) and (found := self._owned.match(pc_id)):
                return found[1]
        return None

    def _candidates(self, owner: str | None) -> list[Worker]:
        if owner in self._workers:
            return [self._workers[owner]]
        by_load = sorted(self._workers.values(), key=lambda worker: worker.calls)
        return [w for w in by_load if w.alive] or by_load
