"""A model hub on the loopback: resolve addresses, redirects to a storage server, tokens, faults."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer

TOKEN = "hf_secretsecretsecret"


@dataclass
class FakeHub:
    """Files by repository and name; the public fields say how it behaves."""

    files: dict[str, dict[str, bytes]]
    needs_token: bool = True
    licence_accepted: bool = True
    error_message: str = ""
    statuses: list[int] = field(default_factory=list)
    """Answers of the resolve address before it behaves."""
    cut_at: list[int] = field(default_factory=list)
    """Bytes after which each next transfer breaks off."""
    sends: bytes | None = None
    """What the storage sends in place of a file's content."""
    ranges: bool = True
    seen: list[str] = field(default_factory=list)
    """Range header of every transfer."""
    leaked: bool = False
    """The storage server was shown a token."""
    endpoint: str = ""
    _storage: str = ""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[FakeHub]:
        hub, storage = web.Application(), web.Application()
        hub.router.add_get("/{owner}/{repo}/resolve/{revision}/{name}", self._resolve)
        storage.router.add_get("/{owner}/{repo}/{name}", self._store)
        async with TestServer(hub) as front, TestServer(storage) as back:
            self.endpoint = str(front.make_url("")).rstrip("/")
            self._storage = str(back.make_url("")).rstrip("/")
            yield self

    def _content(self, request: web.Request) -> bytes | None:
        repo = f"{request.match_info['owner']}/{request.match_info['repo']}"
        return self.files.get(repo, {}).get(request.match_info["name"])

    async def _resolve(self, request: web.Request) -> web.StreamResponse:
        if self.statuses:
            return web.Response(status=self.statuses.pop(0))
        if self.needs_token and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(status=401, headers={"X-Error-Code": "GatedRepo"})
        if not self.licence_accepted:
            headers = {"X-Error-Code": "GatedRepo", "X-Error-Message": self.error_message}
            return web.Response(status=403, headers=headers)
        content = self._content(request)
        if content is None:
            return web.Response(status=404, headers={"X-Error-Code": "EntryNotFound"})
        if len(content) < 100:
            # As the hub does with files kept in git itself.
            return await self._send(request, content, {"ETag": f'"{"ab" * 20}"'})
        path = request.path.replace("/resolve/main", "")
        headers = {
            "Location": f"{self._storage}{path}?signature=xyz",
            "X-Linked-Size": str(len(content)),
            "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"',
        }
        return web.Response(status=302, headers=headers)

    async def _store(self, request: web.Request) -> web.StreamResponse:
        self.leaked |= "Authorization" in request.headers
        content = self._content(request)
        assert content is not None
        return await self._send(request, self.sends or content, {})

    async def _send(
        self, request: web.Request, content: bytes, headers: dict[str, str]
    ) -> web.StreamResponse:
        wanted = request.headers.get("Range", "")
        self.seen.append(wanted)
        start, status = 0, 200
        if wanted and self.ranges:
            start, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            if start >= len(content):
                headers["Content-Range"] = f"bytes */{len(content)}"
                return web.Response(status=416, headers=headers)
        body = content[start:]
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = len(body)
        await response.prepare(request)
        if self.cut_at:
            await response.write(body[: self.cut_at.pop(0)])
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(body)
        return response
