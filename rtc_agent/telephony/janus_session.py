"""A client of the Janus gateway: one session over a WebSocket, which may be lost and come back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from rtc_agent.errors import GatewayRefused, GatewayUnreachable
from rtc_agent.protocol import janus
from rtc_agent.protocol.janus import Jsep, Message, PluginEvent

log = logging.getLogger(__name__)

HEARTBEAT_S = 10.0
"""A gateway that does not answer a WebSocket ping for half of this is gone."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where the gateway is and how it knows this client."""

    url: str
    secret: str | None = None
    token: str | None = None
    keepalive_s: float = 25.0
    answer_s: float = 10.0
    """Longest wait for the answer to a request, in seconds."""


class JanusSession:
    """Requests and their answers, paired by transaction; everything else goes to `on_message`.

    A session outlives its socket where the gateway allows it (`reclaim_session_timeout`): `connect`
    takes it up again. Messages are handed on in the order in which they came, on the event loop.
    """

    def __init__(self, gateway: Gateway, on_message: Callable[[Message], None]) -> None:
        self._gateway = gateway
        self._on_message = on_message
        self._id: int | None = None
        self._http: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._want_event: set[str] = set()
        self._reader_task: asyncio.Task[None] | None = None
        self._over = False

    @property
    def id(self) -> int | None:
        """The gateway's number for the session; None before the first `connect`."""
        return self._id

    @property
    def connected(self) -> bool:
        return self._socket is not None and not self._socket.closed

    async def connect(self) -> bool:
        """Open the socket, and claim the session there was or make a new one.

        Returns:
            True if the session is the one there was: its handles and calls are still there.

        Raises:
            GatewayUnreachable: nothing answers, or no gateway does.
            GatewayRefused: it wants another secret, or no client at all.
        """
        await self._disconnect()
        if self._http is None:
            self._http = aiohttp.ClientSession()
        try:
            async with asyncio.timeout(self._gateway.answer_s):
                self._socket = await self._http.ws_connect(
                    self._gateway.url,
                    protocols=(janus.SUBPROTOCOL,),
                    heartbeat=HEARTBEAT_S,
                    max_msg_size=1 << 20,
                )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise GatewayUnreachable(
                f"The telephone gateway at {self._gateway.url} does not answer: "
                f"{str(error) or 'no reply in time'}."
            ) from error
        self._over = False
        loop = asyncio.get_running_loop()
        self._reader_task = loop.create_task(self._read(self._socket), name="gateway messages")
        if self._id is not None and await self._claim():
            return True
        self._id = (await self._success("create")).id
        return False

    async def run(self) -> None:
        """Keep the session alive until its socket or the session itself is lost; then return."""
        if self._reader_task is None:
            return
        loop = asyncio.get_running_loop()
        keepalive_task = loop.create_task(self._keep_alive(), name="gateway keepalive")
        try:
            await asyncio.wait(
                {self._reader_task, keepalive_task}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            keepalive_task.cancel()
            await self._disconnect()

    async def attach(self, plugin: str) -> int:
        """A new handle of that plugin. Raises as `ask` does."""
        handle_id = (await self._success("attach", plugin=plugin)).id
        if handle_id is None:
            raise GatewayRefused("The telephone gateway made a handle without a number.")
        return handle_id

    async def ask(
        self, handle_id: int, body: dict[str, Any], jsep: Jsep | None = None
    ) -> PluginEvent:
        """Send a plugin's request and wait for the event that answers it.

        Raises:
            GatewayUnreachable: no answer in time, or the connection is gone.
            GatewayRefused: the gateway refused it (a plugin's own refusals are events).
        """
        answer = await self._request("message", True, handle_id, body=body, jsep=_as_json(jsep))
        assert isinstance(answer, PluginEvent)
        return answer

    async def tell(self, handle_id: int, body: dict[str, Any], jsep: Jsep | None = None) -> None:
        """Send a plugin's request that it may leave unanswered; what it says goes to `on_message`.

        Raises as `ask` does.
        """
        await self._request("message", False, handle_id, body=body, jsep=_as_json(jsep))

    async def aclose(self) -> None:
        """End the session with all its handles and calls. Bounded in time; idempotent."""
        if self.connected and self._id is not None:
            with contextlib.suppress(GatewayRefused, GatewayUnreachable):
                async with asyncio.timeout(1.0):
                    await self._success("destroy")
        self._id = None
        await self._disconnect()
        if self._http is not None:
            await self._http.close()
            self._http = None

    # -- inside ---------------------------------------------------------------------------------

    async def _claim(self) -> bool:
        try:
            await self._success("claim")
        except GatewayRefused as error:
            log.info("the gateway no longer has our session: %s", error.message)
            self._id = None
            return False
        return True

    async def _success(self, kind: str, **fields: Any) -> janus.Success:
        answer = await self._request(kind, False, None, **fields)
        if not isinstance(answer, janus.Success):
            raise GatewayRefused(f"The telephone gateway answered {kind} with something else.")
        return answer

    async def _request(
        self, kind: str, want_event: bool, handle_id: int | None, **fields: Any
    ) -> Message:
        socket = self._socket
        if socket is None or socket.closed:
            raise GatewayUnreachable("The connection to the telephone gateway is lost.")
        transaction = secrets.token_hex(8)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[transaction] = future
        if want_event:
            self._want_event.add(transaction)
        request = janus.request(
            kind,
            transaction,
            session_id=self._id,
            handle_id=handle_id,
            secret=self._gateway.secret,
            token=self._gateway.token,
            **fields,
        )
        try:
            async with asyncio.timeout(self._gateway.answer_s):
                await socket.send_json(request)
                answer = await future
        except TimeoutError:
            raise GatewayUnreachable(
                f"The telephone gateway left {kind} unanswered for {self._gateway.answer_s:g} s."
            ) from None
        except (ConnectionError, aiohttp.ClientError) as error:
            raise GatewayUnreachable("The connection to the telephone gateway is lost.") from error
        finally:
            self._waiting.pop(transaction, None)
            self._want_event.discard(transaction)
        if isinstance(answer, janus.Failure):
            raise GatewayRefused(
                f"The telephone gateway refused {kind}: {answer.reason} ({answer.code}).",
                gateway_code=answer.code,
            )
        return answer

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for frame in socket:
            if frame.type is not aiohttp.WSMsgType.TEXT:
                continue
            try:
                message = janus.parse(frame.data)
            except ValueError as error:
                log.warning("a message of the gateway cannot be read: %s", error)
                continue
            self._take(message)
            if self._over:
                return

    def _take(self, message: Message) -> None:
        future = self._waiting.get(message.transaction or "")
        wants_event = message.transaction in self._want_event
        if future is not None and not future.done():
            if isinstance(message, janus.Failure | janus.Success | PluginEvent):
                answered = isinstance(message, janus.Failure) or (
                    wants_event == isinstance(message, PluginEvent)
                )
            else:
                answered = isinstance(message, janus.Ack) and not wants_event
            if answered:
                future.set_result(message)
                return
        if isinstance(message, janus.TimedOut) and message.session_id in (None, self._id):
            self._over = True
            self._id = None
        if isinstance(message, janus.Ack):
            return
        try:
            self._on_message(message)
        except Exception:
            log.exception("a message of the gateway could not be handled")

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._gateway.keepalive_s)
            try:
                await self._request("keepalive", False, None)
            except GatewayRefused as error:
                if error.gateway_code == janus.NO_SUCH_SESSION:
                    self._id = None
                    return
                log.warning("%s", error.message)
            except GatewayUnreachable as error:
                log.warning("%s", error.message)
                return

    async def _disconnect(self) -> None:
        if self._reader_task is not None:
            self._reader_task.cancel()
            await asyncio.wait({self._reader_task})
            self._reader_task = None
        if self._socket is not None:
            # A gateway that hangs does not get the ten seconds that aiohttp would give it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._socket.close()
            self._socket = None
        lost = GatewayUnreachable("The connection to the telephone gateway is lost.")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(lost)


def _as_json(jsep: Jsep | None) -> dict[str, Any] | None:
    return None if jsep is None else jsep.as_json()
