"""The model hub: its addresses, whose token it gets, and what its refusals mean."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from rtc_agent.errors import (
    DownloadError,
    HubFileNotFound,
    HubTokenMissing,
    HubUnreachable,
    LicenceNotAccepted,
)

PUBLIC_HUB = "https://huggingface.co"

_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Hub:
    """Where files come from, and as whom.

    The token goes to the hub's own address only, never to the servers that it redirects to.
    """

    endpoint: str
    token: str | None = None
    revision: str = "main"
    attempts: int = 4
    """Tries in a row that bring nothing new before giving up."""
    retry_s: float = 0.5
    """Wait before the second try; doubled for every further one."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[^\s/\[\]]+(/\S*)?", self.endpoint):
            raise HubUnreachable(
                f"HF_ENDPOINT is {self.endpoint!r}; it has to be an http:// or https:// address."
            )

    def __repr__(self) -> str:
        return f"Hub({self.endpoint!r}, token={'set' if self.token else 'none'})"

    @classmethod
    def from_environment(cls, revision: str = "main") -> Hub:
        """`HF_ENDPOINT`; the token from `HF_TOKEN` or from what `hf auth login` saved.

        Raises:
            HubTokenMissing, HubUnreachable: what is set there cannot be a token or an address.
        """
        endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or PUBLIC_HUB
        token = _environment_token()
        if token and not _TOKEN.fullmatch(token):
            raise HubTokenMissing("HF_TOKEN holds characters that no token has; set it again.")
        return cls(endpoint, token, revision)

    def page(self, repo: str) -> str:
        """The page of a repository, where its licence is shown."""
        return f"{self.endpoint}/{repo}"

    def url(self, repo: str, name: str) -> str:
        return f"{self.page(repo)}/resolve/{quote(self.revision, safe='')}/{quote(name)}"

    def refusal(
        self, repo: str, name: str, status: int, headers: Mapping[str, str]
    ) -> DownloadError:
        """What an HTTP status of the hub means for a person, and what to do about it."""
        if status == 401 and self.token:
            return HubTokenMissing(
                f"{self.endpoint} does not know the token it was given; "
                "make a new one there and set HF_TOKEN to it."
            )
        if status == 401:
            return HubTokenMissing(
                f"{repo} needs a token: make one at {self.endpoint}/settings/tokens "
                "and set HF_TOKEN to it, or run `hf auth login`."
            )
        if status == 403 and "fine-grained" in headers.get("X-Error-Message", "").lower():
            return HubTokenMissing(
                "The token may not read gated repositories; allow it to at "
                f"{self.endpoint}/settings/tokens, or use one of type read."
            )
        if status == 403:
            return LicenceNotAccepted(
                f"The licence of {repo} has not been accepted by this token's account: "
                f"accept it at {self.page(repo)} and run the command again."
            )
        if status == 404:
            return HubFileNotFound(
                f"{self.page(repo)} has no {name} at revision {self.revision!r}."
            )
        return HubUnreachable(f"{self.endpoint} answers {name} with HTTP {status}.")

    def sends_token_to(self, url: str) -> bool:
        """Whether an address is the hub's own, which alone may see the token."""
        return self.token is not None and self.owns(url)

    def owns(self, url: str) -> bool:
        """Whether an address is on the hub itself, not on a server that it redirects to."""
        return _origin(url) == _origin(self.endpoint)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _environment_token() -> str | None:
    if token := os.environ.get("HF_TOKEN", "").strip():
        return token
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    path = Path(os.environ.get("HF_TOKEN_PATH") or home / "token")
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
