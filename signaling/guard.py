"""Lets requests in: keys, client secrets, and limits by key and by address."""

from __future__ import annotations

import ipaddress
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from rtc_agent.call.holder import Holder, holder
from rtc_agent.clock import Clock
from rtc_agent.errors import (
    Forbidden,
    OriginNotAllowed,
    RtcAgentError,
    TooManyRequests,
    Unauthorized,
)
from signaling.bodies import read_body
from signaling.client_secrets import PREFIX, ClientSecrets
from signaling.keyring import Key, KeyRing, Scope
from signaling.rates import Rate, whole_seconds
from signaling.scopes import CHAT, SESSION_ID, Need, begins_a_call, need

log = logging.getLogger(__name__)

WRONG_KEYS_PER_MINUTE = 60
"""Of one address; beyond it a wrong key is not even looked at. A right one always is."""
RETRY_AFTER_FULL_S = 10


@dataclass(frozen=True, slots=True)
class GuardRules:
    """What may change while the server runs."""

    keys: tuple[Key, ...] = ()
    public: bool = False
    """Others than people on this machine can reach the server."""
    offers_per_minute: float = 0
    """Of one address other than loopback; 0 does not limit."""
    key_offers_per_minute: float = 0
    calls_per_address: int = 0
    hosts: tuple[str, ...] = ()
    """Names by which a server on loopback may be called, beside `localhost` and addresses."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses whose `X-Forwarded-For` is believed."""


class Guard:
    """Decides about requests. One for each application."""

    def __init__(
        self,
        rules: GuardRules,
        secrets: ClientSecrets,
        clock: Clock,
        page: Iterable[str] = (),
        holders: Callable[[], Iterable[Holder]] = tuple,
        has_call: Callable[[str], bool] = lambda session: False,
    ) -> None:
        """
        Args:
            page: addresses of files that anybody may have.
            holders: of the calls in progress.
            has_call: whether a call of that session id is in progress.
        """
        self.secrets = secrets
        self.refused: Callable[[RtcAgentError], None] = lambda error: None
        """Told of everybody who is turned away here."""
        self.let_in: Callable[[Holder], None] = lambda who: None
        """Told of everybody whose asking for a call counts."""
        self._clock = clock
        self._page = frozenset(page)
        self._holders = holders
        self._has_call = has_call
        self._wrong = Rate(clock, WRONG_KEYS_PER_MINUTE)
        self.use(rules)

    def use(self, rules: GuardRules) -> None:
        """Go by these rules from now on."""
        self.rules = rules
        self.keys = KeyRing(rules.keys)
        self._by_address = Rate(self._clock, rules.offers_per_minute)
        self._by_key = Rate(self._clock, rules.key_offers_per_minute)

    @property
    def counts_calls(self) -> bool:
        """Whether there are limits on calls at once."""
        rules = self.rules
        return rules.calls_per_address > 0 or any(key.max_calls for key in rules.keys)

    async def admit(self, request: web.Request) -> Holder:
        """Whose request this is.

        Raises:
            Unauthorized, Forbidden: it needs a key, or another.
            TooManyRequests: its key or address has had enough for now.
        """
        self._check_host(request)
        address = client_address(request, self.rules.trusted_proxies)
        wanted = need(request.method, request.path, self._page)
        key = ""
        if (scope := wanted.scope) is not None:
            try:
                key = self.require(request, scope)
            except Unauthorized:
                if wanted is not Need.CALL_OR_ITS_ID or not await self._names_a_call(request):
                    raise
        who = Holder(key, address)
        if begins_a_call(request.method, request.path):
            self._limit_rate(who)
            try:
                self._limit_calls(who)
            except TooManyRequests:
                # Who comes back to a call has it already. One more is let pass, and not any
                # number: a front cannot tell whether there is a call of that id.
                if not await self._names_a_call(request):
                    raise
                self._limit_calls(who, more=1)
        return who

    def _check_host(self, request: web.Request) -> None:
        """On loopback and without keys, being on this machine is what lets one in. A page whose
        name was made to point to this machine (DNS rebinding) is not, and its browser says so."""
        if self.rules.public or self.keys or not request.remote:
            return
        host = _host_name(request.host)
        if host == "localhost" or host.endswith(".localhost") or host in self.rules.hosts:
            return
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise OriginNotAllowed(
                "This server is not known by that name; the setting `allowed_hosts` says by which "
                "it is."
            ) from None

    def require(self, request: web.Request, scope: Scope) -> str:
        """Name of the key that the request brings; empty where none is needed.

        Raises:
            Unauthorized: it brings none, or one that is not known here.
            Forbidden: its key is not for this.
        """
        if not self.keys:
            if scope is Scope.CALL or (scope is Scope.ADMIN and not self.rules.public):
                return ""
            raise Unauthorized("This needs a key, and this server has been given none (`keys`).")
        given = bearer(request)
        if not given:
            raise Unauthorized("A key is needed: Authorization: Bearer KEY.")
        if given.startswith(PREFIX):
            name, scopes = self._of_secret(given)
        else:
            name, scopes = self._of_key(request, given)
        if scope not in scopes:
            raise Forbidden(f"This key is not for this; it takes one of scope `{scope}`.")
        return name

    def allows(self, request: web.Request, scope: Scope) -> bool:
        """Whether `require` would let the request pass."""
        try:
            self.require(request, scope)
        except RtcAgentError:
            return False
        return True

    def _of_secret(self, given: str) -> tuple[str, frozenset[Scope]]:
        made_by = self.secrets.read(given).key
        if self.keys.named(made_by) is None:
            raise Unauthorized("The key that made this client secret is no longer known.")
        return made_by, frozenset({Scope.CALL})

    def _of_key(self, request: web.Request, given: str) -> tuple[str, frozenset[Scope]]:
        if (key := self.keys.find(given)) is not None:
            return key.name, key.scopes
        address = client_address(request, self.rules.trusted_proxies)
        if wait_s := self._wrong.take(address):
            raise TooManyRequests(
                "Too many wrong keys came from this address.",
                retry_after_s=whole_seconds(wait_s),
            )
        raise Unauthorized("This key is not known here.")

    async def _names_a_call(self, request: web.Request) -> bool:
        """Whether the request has the unguessable id of a call in progress."""
        if request.path == CHAT:
            return self._has_call(request.query.get(SESSION_ID, ""))
        try:
            pc_id = json.loads(await read_body(request)).get("pc_id")
        except (ValueError, AttributeError, RecursionError):
            return False
        return isinstance(pc_id, str) and self._has_call(pc_id)

    def count(self, who: Holder) -> None:
        """Somebody asked another front of the same service: that counts here too."""
        if not is_loopback(who.address):
            self._by_address.spend(who.address)
        if who.key:
            self._by_key.spend(who.key)

    def _limit_rate(self, who: Holder) -> None:
        wait_s = 0.0 if is_loopback(who.address) else self._by_address.take(who.address)
        if not wait_s and who.key:
            wait_s = self._by_key.take(who.key)
        if wait_s:
            raise TooManyRequests(
                "Too many calls were asked for in a short time.",
                retry_after_s=whole_seconds(wait_s),
            )
        self.let_in(who)

    def _limit_calls(self, who: Holder, more: int = 0) -> None:
        """
        Args:
            more: calls beyond the limits.
        """
        holders = list(self._holders())
        most = self.rules.calls_per_address
        if most and sum(other.address == who.address for other in holders) >= most + more:
            raise TooManyRequests(
                f"This address has {most} calls, and no more are allowed.",
                retry_after_s=RETRY_AFTER_FULL_S,
            )
        key = self.keys.named(who.key) if who.key else None
        taken = sum(key is not None and other.key == key.name for other in holders)
        if key and key.max_calls and taken >= key.max_calls + more:
            raise TooManyRequests(
                f"This key has {key.max_calls} calls, and no more are allowed.",
                retry_after_s=RETRY_AFTER_FULL_S,
            )


GUARD = web.AppKey("guard", Guard)


def guarded(guard: Guard) -> Middleware:
    """Everything behind this has passed the guard."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            who = await guard.admit(request)
        except RtcAgentError as error:
            guard.refused(error)
            raise
        request[HOLDER] = who
        holder.set(who)
        return await handler(request)

    return middleware


HOLDER = web.RequestKey("holder", Holder)


def bearer(request: web.Request) -> str:
    """The key that a request brings. A browser cannot give a WebSocket headers, so that there a
    client secret may stand in the address: it expires before a log of addresses can be misused."""
    scheme, _, key = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() == "bearer":
        # Keys are ASCII (RFC 6750, 2.1); what is not is nobody's, and cannot be compared as text.
        return key.strip() if key.isascii() else "?"
    if request.headers.get(hdrs.UPGRADE, "").lower() == "websocket":
        given = request.query.get("access_token", "")
        return given if given.startswith(PREFIX) else ""
    return ""


def client_address(request: web.Request, trusted: Iterable[str]) -> str:
    """Where the client is: the peer, or whom a proxy that is believed has named last."""
    named = request.headers.get("X-Forwarded-For", "").split(",")
    forwarded = [address for name in named if (address := name.strip())]
    believed = frozenset(trusted)
    address = request.remote or ""
    # Only processes of this server come over a local socket, and they name their own peer.
    while forwarded and (not address or address in believed):
        address = forwarded.pop()
    return address


def _host_name(host: str) -> str:
    """Without its port; empty for what is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
