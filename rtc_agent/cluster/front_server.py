"""One front: the application of `front`, listening, and told of the replicas."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable

from yarl import URL

from rtc_agent.call.holder import Holder
from rtc_agent.cluster.ending import ending_of
from rtc_agent.cluster.front import ClusterFront
from rtc_agent.cluster.plan import FrontSight, Member, Phase, Plan, Values
from rtc_agent.cluster.ports import is_free
from rtc_agent.config import Settings
from rtc_agent.errors import ConfigError
from rtc_agent.exposure import access, require_keys
from rtc_agent.listening import listen, site_runner
from rtc_agent.reloading import certificate_of, watch_certificate

HTTP_CLOSE_S = 1.0
LOOK_EVERY_S = 0.5


class FrontServer:
    """Listens until it is drained: then it takes no more connections, and ends once the WebSocket
    calls that pass through it have."""

    def __init__(self, plan: Plan, node: str, port: int | None = None) -> None:
        """
        Args:
            node: this host's address, for the one who asks where the front is.
            port: take over this port, on which another front of this host still listens.
        """
        self._plan = plan
        self._node = node
        self._port = port
        self._phase = Phase.STARTING
        self._detail = ""
        self._url = ""
        self._began_s = time.monotonic()
        self._front: ClusterFront | None = None
        self._members: list[Member] = []
        self._told = asyncio.Event()
        self._drain = asyncio.Event()
        self._stop = asyncio.Event()
        self.status: Callable[[], Awaitable[Values]] | None = None
        """Tells how the cluster is doing."""

    def sight(self) -> FrontSight:
        """How it is doing."""
        return FrontSight(
            generation=self._plan.generation,
            phase=self._phase,
            url=self._url,
            node=self._node,
            pid=os.getpid(),
            age_s=round(time.monotonic() - self._began_s, 1),
            detail=self._detail,
            sockets=0 if self._front is None else self._front.sockets,
        )

    async def take(self, members: Iterable[Member]) -> None:
        """These are the replicas from now on. The first time, it begins to listen."""
        self._members = list(members)
        if self._front is not None:
            await self._front.take(self._members)
        self._told.set()

    def take_let_in(self) -> list[Holder]:
        """Who was let in here since this was last asked."""
        if self._front is None:
            return []
        taken = list(self._front.let_in)
        self._front.let_in.clear()
        return taken

    def count(self, holders: Iterable[Holder]) -> None:
        """Other fronts have let them in: that counts here too."""
        if self._front is not None:
            for holder in holders:
                self._front.guard.count(holder)

    def drain(self) -> None:
        self._drain.set()

    def stop(self) -> None:
        self._drain.set()
        self._stop.set()

    async def run(self) -> None:
        """Until it is over, or has failed; `sight` says which."""
        self._phase, self._detail = await ending_of(self._run(), "the front")

    async def _run(self) -> None:
        settings = self._plan.server_here()
        require_keys(settings)
        certificate = certificate_of(settings)
        # Who asks before it is known where replicas are would be told that there are none.
        await self._told.wait()
        front = ClusterFront(access(settings), self._plan.secret)
        front.status = self.status
        await front.take(self._members)
        runner = site_runner(front.app(), HTTP_CLOSE_S)
        watch = asyncio.create_task(watch_certificate(certificate))
        try:
            await runner.setup()
            tls = None if certificate is None else certificate.context
            port = self._choose_port(settings)
            url = await listen(runner, settings.host, port, tls, reuse_port=True)
            self._url = self._as_others_reach_it(url, settings.host)
            self._front = front
            self._phase = Phase.SERVING
            await self._drain.wait()
            self._phase = Phase.DRAINING
            for site in list(runner.sites):
                await site.stop()
            while front.sockets and not self._stop.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await self._stop.wait()
        finally:
            watch.cancel()
            await runner.cleanup()

    def _as_others_reach_it(self, url: str, host: str) -> str:
        """For a front that listens on every address, the one that the cluster's hosts use."""
        if host not in ("0.0.0.0", "::"):
            return url
        return str(URL(url).with_host(self._node))

    def _choose_port(self, settings: Settings) -> int:
        """The configured port, or the next that is free where another front of this host has it.
        Fronts can share one, so that a new one takes over from an old; those that did not mean to
        must not."""
        if self._port is not None or settings.port == 0:
            return self._port or 0
        fronts = self._plan.cluster.fronts
        for port in range(settings.port, settings.port + fronts):
            if is_free(settings.host, port):
                return port
        raise ConfigError(
            f"Cannot listen on {settings.host} port {settings.port}"
            f"{f' to {settings.port + fronts - 1}' if fronts > 1 else ''}: others do. Choose "
            "another with `port` below [server] (0 takes a free one)."
        )
