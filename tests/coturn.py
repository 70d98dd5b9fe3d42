"""coturn, a TURN relay, in a process of its own, that shares a secret with the server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real_server import ROOT
from tests.telephony.gateway import free_port

SECRET = "a secret | that & both \\ know"
START = ROOT / "docker" / "coturn" / "start.sh"
START_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate, and the port on which it is shown."""

    cert: Path
    key: Path
    port: int


def require_coturn() -> str:
    """Where it is; without it the test is skipped, and fails in CI."""
    path = shutil.which("turnserver")
    if path is None:
        reason = "coturn is not installed (Debian package: coturn)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@contextlib.asynccontextmanager
async def relaying(
    folder: Path,
    *options: str,
    address: str = "127.0.0.1",
    port: int = 0,
    agents: str = "",
    tls: Tls | None = None,
    within: Sequence[str] = (),
) -> AsyncIterator[int]:
    """A relay for one test, started as its container starts it; its port for UDP and TCP.

    Args:
        folder: where it keeps its files.
        options: for turnserver itself.
        address: where it listens and relays from.
        port: 0 takes a free one.
        agents: private addresses of servers, which it may relay to.
        tls: how it is reached by TLS too.
        within: a command that runs the relay somewhere else, such as `ip netns exec NAME`.
    """
    require_coturn()
    secured = {"TURN_CERT": "", "TURN_KEY": ""}
    if tls is not None:
        secured = {"TURN_CERT": str(tls.cert), "TURN_KEY": str(tls.key), "TLS_PORT": str(tls.port)}
    port = port or free_port()
    process = await asyncio.create_subprocess_exec(
        *within,
        *(str(START), "--allow-loopback-peers", *options),
        env={
            "PATH": os.environ["PATH"],
            "TMPDIR": str(folder),
            "TURN_SECRET": SECRET,
            "TURN_IPS": address,
            "TURN_PORT": str(port),
            "AGENT_IPS": agents,
            **secured,
        },
        stdout=PIPE,
        stderr=STDOUT,
    )
    reading = asyncio.create_task(_drained(process.stdout))
    try:
        await _listens(address, port, process, within)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        await reading


async def _drained(stream: asyncio.StreamReader | None) -> None:
    assert stream is not None
    while await stream.read(65_536):
        pass


async def _listens(
    address: str, port: int, process: asyncio.subprocess.Process, within: Sequence[str]
) -> None:
    """Wait until it takes TCP connections; UDP it takes from then on too."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            assert process.returncode is None, "coturn ended"
            looking = await asyncio.create_subprocess_exec(
                *within, "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}", stderr=DEVNULL
            )
            if await looking.wait() == 0:
                return
            await asyncio.sleep(0.05)
