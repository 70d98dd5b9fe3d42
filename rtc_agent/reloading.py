"""Settings that are read again while the server runs, on SIGHUP."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rtc_agent import logs
from rtc_agent.config import Settings
from rtc_agent.errors import RtcAgentError
from rtc_agent.tls import Certificate

log = logging.getLogger(__name__)

CHANGEABLE = frozenset(
    {
        *("keys", "offers_per_minute", "key_offers_per_minute", "calls_per_address"),
        *("trusted_proxies", "allowed_hosts", "log_level", "connect_timeout_s", "vanished_after_s"),
        *("reconnect_grace_s", "idle_limit_s", "call_limit_s", "limit_warning_s", "drain_s"),
    }
)
"""Settings that a running server takes over; calls in progress keep their limits."""


class Reloader:
    """Takes over what can change, and says what cannot."""

    def __init__(
        self,
        settings: Settings,
        reread: Callable[[], Settings] | None,
        use: Callable[[Settings], None],
        certificate: Certificate | None = None,
    ) -> None:
        """
        Args:
            reread: gives the settings as they are now; without it there is nothing to reload but
                the certificate.
            use: takes them over.
        """
        self.settings = settings
        self._reread = reread
        self.use = use
        self.certificate = certificate

    def __call__(self) -> None:
        """Read everything again. What is wrong is logged, and changes nothing."""
        try:
            if self.certificate is not None:
                self.certificate.reload()
            if self._reread is not None:
                self._take_over(self._reread())
        except RtcAgentError as error:
            log.error("the settings stay as they were: %s", error.message)

    def _take_over(self, read: Settings) -> None:
        changed = {name for name, value in read if value != getattr(self.settings, name)}
        if not read.token_secret.get_secret_value():
            changed.discard("token_secret")  # it was made at the start, and stays
        taken = {name: getattr(read, name) for name in changed & CHANGEABLE}
        self.settings = self.settings.model_copy(update=taken)
        logs.set_level(self.settings.log_level)
        self.use(self.settings)
        log.info("settings taken over: %s", ", ".join(sorted(taken)) or "none have changed")
        if fixed := changed - CHANGEABLE:
            log.warning("settings that need a restart: %s", ", ".join(sorted(fixed)))


def certificate_of(settings: Settings) -> Certificate | None:
    """The certificate that the settings name, if any."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return Certificate(settings.tls_cert, settings.tls_key)


async def watch_certificate(certificate: Certificate | None) -> None:
    """Load the certificate again whenever its files change; for a task."""
    if certificate is not None:
        await certificate.watch()
