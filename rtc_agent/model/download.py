"""Fetching model files from the hub: resumed, checked, and plain about what stands in the way.

`huggingface_hub` is not used for the transfer: it answers 401 and 404 with one error, checks no
hash, and keeps half a file where only its own cache finds it. Its token file is honoured.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urljoin

import aiohttp

from rtc_agent.errors import (
    DiskFull,
    DownloadCorrupt,
    DownloadError,
    DownloadIncomplete,
    HubFileNotFound,
    HubUnreachable,
)
from rtc_agent.model.catalog import PublishedModel
from rtc_agent.model.hub import Hub

Progress = Callable[[str, int, int], None]
"""Called with a file's name, its bytes here so far, and its bytes in all."""

_BLOCK = 1 << 20
_REDIRECTS = 5
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=60)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SPARE_BYTES = 64 << 20
"""Left free on the disk beside what is fetched."""


async def download(
    model: PublishedModel,
    folder: Path,
    hub: Hub,
    progress: Progress = lambda name, done, total: None,
) -> list[Path]:
    """Bring every file of a model into `folder`; whole ones that are there already are left alone.

    A file is called `NAME.part` until it has its length and checksum, so a name without that ending
    is a whole file. A run that stopped is gone on with by the next.

    Raises:
        HubTokenMissing, LicenceNotAccepted, HubFileNotFound, HubUnreachable, DownloadIncomplete,
        DownloadCorrupt, DiskFull: each with one sentence on what to do.
    """
    _make(folder)
    paths = []
    # trust_env: proxies are a matter of the environment, as for every other tool.
    async with aiohttp.ClientSession(
        timeout=_TIMEOUT, trust_env=True, headers={"Accept-Encoding": "identity"}
    ) as session:
        for name in (*model.files, *model.optional_files):
            file = _File(session, hub, model.repo, name, folder, progress)
            try:
                paths.append(await file.fetch())
            except HubFileNotFound:
                if name not in model.optional_files:
                    raise
    return paths


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(f"{folder} cannot be made: {error.strerror}.") from error


class _Interrupted(Exception):
    """A transfer broke off; what came is kept and the next try goes on from it."""


class _File:
    """One file on its way."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        hub: Hub,
        repo: str,
        name: str,
        folder: Path,
        progress: Progress,
    ) -> None:
        self._session, self._hub, self._repo, self._name = session, hub, repo, name
        self._path = folder / name
        self._part = folder / f"{name}.part"
        self._progress = progress
        self._total: int | None = None
        self._sha256: str | None = None

    async def fetch(self) -> Path:
        tries = 0
        while True:
            before = self._here()
            try:
                if await self._transfer():
                    return self._path
                reason = "the connection closed early"
            except _Interrupted as error:
                reason = str(error)
            except OSError as error:
                raise self._disk_error(error) from error
            tries = 1 if self._here() > before else tries + 1
            if tries >= self._hub.attempts:
                raise self._given_up(reason)
            await asyncio.sleep(self._hub.retry_s * 2 ** (tries - 1))

    async def _transfer(self) -> bool:
        """One try: whether the file is whole now.

        Raises:
            _Interrupted: the network or the hub failed on the way.
        """
        try:
            response = await self._request()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _Interrupted(_reason(error)) from error
        async with response:
            if self._already_whole():
                return True
            # 416: nothing is left to send, so what is here is whole, or is of another file.
            if response.status != 416:
                await self._receive(response)
        if self._total is not None and self._here() < self._total:
            return False
        await asyncio.to_thread(self._check)
        self._part.replace(self._path)
        return True

    async def _receive(self, response: aiohttp.ClientResponse) -> None:
        resumed = response.status == 206
        self._require_space(self._here() if resumed else 0)
        with self._part.open("ab" if resumed else "wb") as file:
            done = file.tell()
            try:
                async for block in response.content.iter_chunked(_BLOCK):
                    file.write(block)
                    done += len(block)
                    self._progress(self._name, done, self._total or done)
            except (aiohttp.ClientError, TimeoutError) as error:
                raise _Interrupted(_reason(error)) from error

    async def _request(self) -> aiohttp.ClientResponse:
        """The answer that carries the file's bytes, from the first one that is missing."""
        url, here = self._hub.url(self._repo, self._name), self._here()
        for _ in range(_REDIRECTS):
            headers = {"Range": f"bytes={here}-"} if here else {}
            if self._hub.sends_token_to(url):
                headers["Authorization"] = f"Bearer {self._hub.token}"
            response = await self._session.get(url, headers=headers, allow_redirects=False)
            self._note(response)
            if response.status in (200, 206, 416):
                return response
            location = response.headers.get("Location")
            response.release()
            if response.status not in (301, 302, 303, 307, 308) or location is None:
                if not self._hub.owns(url):
                    # A signed address of a storage server, which may have run out; ask anew.
                    raise _Interrupted(f"its storage answers with HTTP {response.status}")
                if response.status == 429 or response.status >= 500:
                    raise _Interrupted(f"it answers with HTTP {response.status}")
                raise self._hub.refusal(self._repo, self._name, response.status, response.headers)
            url = urljoin(url, location)
        raise HubUnreachable(f"{self._hub.endpoint} redirects {self._name} in circles.")

    def _note(self, response: aiohttp.ClientResponse) -> None:
        """Take length and checksum from whichever answer on the way has them."""
        headers = response.headers
        etag = headers.get("X-Linked-Etag", headers.get("ETag", "")).removeprefix("W/").strip('"')
        # The hub's etag is the SHA-256 of large files, something else for small ones.
        if self._sha256 is None and _SHA256.fullmatch(etag):
            self._sha256 = etag
        total = headers.get("X-Linked-Size")
        if response.status in (206, 416):
            total = headers.get("Content-Range", "").rpartition("/")[2]
        elif response.status == 200:
            total = headers.get("Content-Length")
        if total is not None and total.isdecimal():
            self._total = int(total)

    def _here(self) -> int:
        """Bytes to go on from; a whole file counts, so that the hub says whether it still is."""
        for path in (self._part, self._path):
            if path.is_file():
                return path.stat().st_size
        return 0

    def _already_whole(self) -> bool:
        if self._part.exists() or not self._path.is_file():
            return False
        if self._total is None or self._path.stat().st_size == self._total:
            self._progress(self._name, self._here(), self._here())
            return True
        # A copy that was cut short under the final name, by another program or by hand.
        self._path.replace(self._part)
        return False

    def _require_space(self, here: int) -> None:
        left = (self._total or 0) - here
        free = shutil.disk_usage(self._part.parent).free
        if left + _SPARE_BYTES > free:
            raise DiskFull(
                f"{self._name} needs {_size(left)} more and {self._part.parent} has "
                f"{_size(free)} free; make room or choose another folder with --output."
            )

    def _check(self) -> None:
        size = self._part.stat().st_size
        fault = None
        if self._total is not None and size != self._total:
            fault = f"is {size} bytes instead of {self._total}"
        elif self._sha256 is not None:
            with self._part.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != self._sha256:
                    fault = "does not have the checksum that the hub gives"
        if fault:
            self._part.unlink()
            raise DownloadCorrupt(f"{self._name} {fault}; it was removed, run the command again.")

    def _given_up(self, reason: str) -> DownloadError:
        if self._part.is_file() and (here := self._here()):
            of = f" of {_size(self._total)}" if self._total is not None else ""
            return DownloadIncomplete(
                f"{self._name} is half-written, {_size(here)}{of} ({reason}); "
                "run the command again to go on from there."
            )
        return HubUnreachable(
            f"{self._hub.endpoint} cannot be reached ({reason}); "
            "check the network, or the proxy in HTTPS_PROXY."
        )

    def _disk_error(self, error: OSError) -> DownloadError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiskFull(
                f"The disk of {self._part.parent} filled up at {_size(self._here())} of "
                f"{self._name}; make room and run the command again to go on from there."
            )
        return DownloadError(f"{self._part} cannot be written: {error.strerror}.")


def total_size(paths: Iterable[Path]) -> int:
    """Bytes of the files together."""
    return sum(path.stat().st_size for path in paths)


def _reason(error: Exception) -> str:
    """A connection error in few words; aiohttp's own may repeat a signed address."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name is not known"
    if isinstance(error, aiohttp.ClientConnectorError):
        code = error.os_error.errno
        return os.strerror(code).lower() if code else "no connection"
    return "the connection broke"


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count} bytes"
