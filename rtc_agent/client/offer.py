"""Exchanging session descriptions with a server over HTTP."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import aiohttp

from rtc_agent.errors import CallRefused, ServerUnreachable

KEY_VARIABLE = "RTC_AGENT_KEY"
"""Environment variable with the key that is brought to servers."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered to an offer."""

    sdp: str
    pc_id: str | None = None
    """The server's name for the peer connection; secret."""


class Signaling(Protocol):
    """Any way to have an offer answered."""

    async def answer(self, sdp: str) -> Answer:
        """Raises ServerUnreachable or CallRefused."""
        ...


@dataclass(frozen=True, slots=True)
class SmallWebRtcSignaling:
    """`POST URL/api/offer`, as Pipecat's SmallWebRTC transport and this server speak it."""

    url: str
    voice: str | None = None
    persona: str | None = None
    timeout_s: float = 10.0

    async def answer(self, sdp: str) -> Answer:
        chosen = {"voice": self.voice, "persona": self.persona}
        body = {
            "sdp": sdp,
            "type": "offer",
            "pc_id": None,
            "request_data": {name: value for name, value in chosen.items() if value is not None},
        }
        reply = await post_json(_address(self.url, "/api/offer"), body, self.timeout_s)
        if not isinstance(reply.get("sdp"), str):
            raise CallRefused(f"{self.url} answered the offer without a session description.")
        return Answer(sdp=reply["sdp"], pc_id=reply.get("pc_id"))


def _address(server: str, path: str) -> str:
    """A path of the server whose page has that address.

    Raises:
        ServerUnreachable: that is no address of a server.
    """
    try:
        parts = urlsplit(server)
        understood = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        understood = False
    if not understood:
        raise ServerUnreachable(
            f"{server!r} is not an address of a server; expected http://HOST:PORT."
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}{path}"


async def post_json(url: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """POST a JSON object and return the one that comes back.

    Raises:
        ServerUnreachable: no connection, or no answer in time.
        CallRefused: any status but 2xx, with the server's own words, or no JSON object.
    """
    return await _exchange("POST", url, body, timeout_s)


async def get_json(server: str, path: str, timeout_s: float) -> dict[str, Any]:
    """GET a JSON object from a path of the server. Raises as `post_json`."""
    return await _exchange("GET", _address(server, path), None, timeout_s)


async def _exchange(
    method: str, url: str, body: dict[str, Any] | None, timeout_s: float
) -> dict[str, Any]:
    try:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, url, json=body, headers=key_headers()) as response,
        ):
            status, text = response.status, await response.text(errors="replace")
            retry_after = response.headers.get("Retry-After", "")
    except aiohttp.ClientConnectorCertificateError as error:
        # Before ValueError, which this is too.
        reason = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        raise ServerUnreachable(
            f"The certificate of {url} is not trusted: {str(reason).rstrip('.')}. One that you "
            "made yourself (`rtc-agent certs`) is trusted with SSL_CERT_FILE=cert.pem in the "
            "environment, under the names that it was made for."
        ) from error
    except (aiohttp.InvalidURL, ValueError):
        raise ServerUnreachable(f"{url} is not an address; expected http://HOST:PORT.") from None
    except TimeoutError:
        raise ServerUnreachable(f"{url} did not answer within {timeout_s:g} s.") from None
    except aiohttp.ClientSSLError as error:
        raise ServerUnreachable(
            f"No TLS connection to {url} ({error.os_error.strerror or error.os_error}). "
            "A server without a certificate is reached by http:// instead."
        ) from error
    except aiohttp.ClientConnectorError as error:
        reason = error.os_error.strerror or error.os_error
        raise ServerUnreachable(f"No server answers at {url}: {reason}.") from error
    except aiohttp.ServerDisconnectedError as error:
        hint = " If it speaks HTTPS, say https://." if url.startswith("http://") else ""
        raise ServerUnreachable(f"{url} closed the connection without an answer.{hint}") from error
    except aiohttp.ClientError as error:
        raise ServerUnreachable(f"No server answers at {url}: {error}.") from error
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        reply = None
    if not 200 <= status < 300:
        wait_s = int(retry_after) if retry_after.isdigit() else None
        words = _words(reply, text)
        message = f"The server refused the call ({status}): {words}"
        if wait_s is not None and "try again" not in words.lower():
            message += f" Try again in {wait_s} s."
        raise CallRefused(message, retry_after_s=wait_s)
    if not isinstance(reply, dict):
        raise CallRefused(f"{url} answered {status} but no JSON object.")
    return reply


def key_headers() -> dict[str, str]:
    """The key that the environment has for servers that want one."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    return {"Authorization": f"Bearer {key}"} if key else {}


def _words(reply: object, text: str) -> str:
    """What a refusal says, out of the shapes that servers use for it; one line."""
    found: object = reply
    for name in ("error", "detail", "message"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    words = found if isinstance(found, str) else text
    line = " ".join(words.split())[:300] or "no reason given"
    return line if line.endswith((".", "!", "?")) else line + "."
