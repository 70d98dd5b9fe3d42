"""The real gateway, started for one test: its own configuration, free ports, loopback for SIP."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from pathlib import Path

import aioice.ice
import pytest

PARTS = ("janus", "baresip", "kamailio")
PATH = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin"
"""Daemons are where a person's own PATH may not look."""
MISSING = [part for part in PARTS if shutil.which(part, path=PATH) is None]

DOCKER = Path(__file__).parents[2] / "docker" / "janus"
"""The scripts and configuration that are shipped are the ones that are tested."""


def require_parts() -> None:
    """Skip where a part is missing; in CI that is a failure."""
    missing = [*MISSING, *([] if media_host() else ["an address other than loopback"])]
    if missing:
        message = f"not here: {', '.join(missing)} (`make system-parts` installs programs)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


def media_host() -> str | None:
    """This machine's own address: the gateway never uses loopback for WebRTC. Packets to it stay
    on the machine."""
    hosts = aioice.ice.get_host_addresses(use_ipv4=True, use_ipv6=False)
    return hosts[0] if hosts else None


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RealJanus:
    """One gateway process; `kill` and `start` again as often as a test likes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        rtp = 20_000 + (os.getpid() * 97 + self.port) % 20_000
        environment = {
            **os.environ,
            "PATH": PATH,
            "TMPDIR": str(self.folder),
            "PHONE_IP": "127.0.0.1",
            "MEDIA_IP": media_host() or "",
            "WS_PORT": str(self.port),
            "ICE_PORTS": f"{rtp}-{rtp + 2000}",
            "RTP_PORTS": f"{rtp + 2002}-{rtp + 4000}",
        }
        log = (self.folder / "janus.log").open("ab")
        try:
            self._process = await asyncio.create_subprocess_exec(
                str(DOCKER / "start.sh"),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        finally:
            log.close()
        async with asyncio.timeout(15):
            while True:
                if self._process.returncode is not None:
                    raise RuntimeError((self.folder / "janus.log").read_text()[-2000:])
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.05)
                    continue
                writer.close()
                return

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class TrialRegistrar:
    """The registrar that is shipped for trials."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port(socket.SOCK_DGRAM)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    async def start(self) -> None:
        environment = {
            **os.environ,
            "PATH": PATH,
            "TMPDIR": str(self._folder),
            "PHONE_IP": "127.0.0.1",
            "SIP_PORT": str(self._port),
        }
        log = (self._folder / "registrar.log").open("ab")
        try:
            self._process = await asyncio.create_subprocess_exec(
                str(DOCKER / "start-registrar.sh"),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        finally:
            log.close()

    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            # Its children end with it only if it is asked.
            self._process.terminate()
            await self._process.wait()
