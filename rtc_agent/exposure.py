"""Who can reach this server, and what is asked of those who do."""

from __future__ import annotations

import ipaddress

from rtc_agent.config import Settings
from rtc_agent.errors import ConfigError
from signaling.guard import GuardRules
from signaling.keyring import Key, Scope
from signaling.parts import Access


def is_public(host: str) -> bool:
    """Whether others than this machine reach a server that listens there."""
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def require_keys(settings: Settings) -> None:
    """A server that others reach has keys.

    Raises:
        ConfigError: it has none, and was not told that this is meant.
    """
    if is_public(settings.host) and not settings.keys and not settings.insecure_public:
        raise ConfigError(
            f"Anybody who reaches {settings.host} could call, for there are no keys. Give the "
            "server `keys` (`rtc-agent token --new NAME` makes one), or say --insecure-public if "
            "something in front of it keeps strangers out."
        )


def access(settings: Settings) -> Access:
    """Who is let in by these settings."""
    return Access(
        allowed_origins=tuple(settings.allowed_origins),
        whip_strict=settings.whip_strict,
        listen_token=settings.listen_token.get_secret_value(),
        rules=guard_rules(settings),
        token_secret=settings.token_secret.get_secret_value().encode(),
    )


def guard_rules(settings: Settings) -> GuardRules:
    """Keys and limits of these settings."""
    return GuardRules(
        keys=tuple(
            Key(key.name, key.sha256, frozenset(map(Scope, key.scopes)), key.max_calls)
            for key in settings.keys
        ),
        public=is_public(settings.host),
        offers_per_minute=settings.offers_per_minute,
        key_offers_per_minute=settings.key_offers_per_minute,
        calls_per_address=settings.calls_per_address,
        hosts=tuple(host.lower() for host in settings.allowed_hosts),
        trusted_proxies=tuple(settings.trusted_proxies),
    )
