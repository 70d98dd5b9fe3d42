"""The line's SIP account at the gateway: registering, and registering again when it is lost."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from rtc_agent.errors import GatewayRefused
from rtc_agent.protocol import janus_sip
from rtc_agent.protocol.janus_sip import SipEvent
from rtc_agent.telephony.backoff import Backoff
from rtc_agent.telephony.config import TelephonySettings
from rtc_agent.telephony.phone_context import SipHandle

log = logging.getLogger(__name__)

EVENTS = frozenset({"registering", "registered", "registration_failed", "unregistered"})
"""Names of the gateway's events about the account."""

ANSWER_S = 40.0
"""A SIP registrar has 32 s to answer before the gateway itself gives up (RFC 3261, timer F)."""


def register_request(settings: TelephonySettings) -> dict[str, Any]:
    """The plugin's request for this account."""
    body: dict[str, Any] = {"request": "register", "username": settings.account}
    if settings.registration == "guest":
        return {**body, "type": "guest"}
    optional = {
        "authuser": settings.auth_user,
        "display_name": settings.display_name,
        "proxy": settings.proxy,
        "outbound_proxy": settings.outbound_proxy,
    }
    body["secret"] = settings.password.get_secret_value() if settings.password else ""
    body["register_ttl"] = settings.register_ttl_s
    body |= {name: value for name, value in optional.items() if value is not None}
    if settings.registration == "trunk":
        body["send_register"] = False
    return body


class Account:
    """Registers on the line's first handle, and again whenever the registrar forgets or refuses."""

    def __init__(self, settings: TelephonySettings) -> None:
        self._settings = settings
        self._answer: asyncio.Future[SipEvent] | None = None
        self._lost = asyncio.Event()
        self.registered = False
        self.detail = "not registered yet"
        """Why not, for a person."""

    async def register(self, handle: SipHandle) -> int:
        """Register, trying again until it works.

        Returns:
            The gateway's number of the account, by which other handles join it.

        Raises:
            GatewayUnreachable: the gateway itself is gone.
        """
        backoff = Backoff(self._settings.retry_limit_s)
        while True:
            event = await self._attempt(handle)
            if event is not None and event.name == "registered":
                self.registered, self.detail = True, ""
                self._lost.clear()
                log.info("the phone line is registered")
                return event.number("master_id") or 0
            self.registered = False
            self.detail = _why(event)
            log.warning("the phone line is not registered: %s", self.detail)
            await backoff.wait()

    async def lost(self) -> None:
        """Return when a registration that there was is gone."""
        await self._lost.wait()

    def forget(self) -> None:
        """The gateway is gone, and with it the registration."""
        self.registered, self.detail = False, "the gateway is not connected"

    def on_event(self, event: SipEvent) -> None:
        """An event about the account."""
        if event.name == "registering":
            return
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(event)
        elif event.name != "registered":
            self.registered, self.detail = False, _why(event)
            self._lost.set()

    async def _attempt(self, handle: SipHandle) -> SipEvent | None:
        self._answer = asyncio.get_running_loop().create_future()
        try:
            answer = await handle.ask(register_request(self._settings))
            event = janus_sip.read(answer.data)
            if event.name != "registering":
                return event
            async with asyncio.timeout(ANSWER_S):
                return await self._answer
        except TimeoutError:
            return None
        except GatewayRefused as error:
            return SipEvent("error", fields={"error": error.message})
        finally:
            self._answer = None


def _why(event: SipEvent | None) -> str:
    if event is None:
        return "the registrar does not answer"
    if event.name == "error":
        return f"the gateway refuses: {event.text('error')}"
    if event.name == "unregistered":
        return "the registrar dropped the account"
    code, reason = event.number("code"), event.text("reason")
    hint = "; check account and password" if code in (401, 403, 407) else ""
    return f"the registrar refuses: {code} {reason}{hint}"
