"""coturn, a TURN relay, in a process of its own, that shares a secret with the server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.telephony.gateway import free_port

SECRET = "a secret that both know"
START_TIMEOUT_S = 30


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
    addresses: Sequence[str] = ("127.0.0.1",),
    port: int = 0,
    within: Sequence[str] = (),
) -> AsyncIterator[int]:
    """A relay for one test; its port for UDP and TCP.

    Args:
        addresses: where it listens; the last is what it relays from.
        port: 0 takes a free one.
        within: a command that runs the relay somewhere else, such as `ip netns exec NAME`.
    """
    port = port or free_port()
    process = await asyncio.create_subprocess_exec(
        *within,
        require_coturn(),
        *("-n", "--no-cli", "--no-tls", "--no-dtls", "--allow-loopback-peers"),
        *("--use-auth-secret", f"--static-auth-secret={SECRET}", "--realm=rtc-agent.test"),
        *(f"--listening-ip={address}" for address in addresses),
        *(f"--relay-ip={addresses[-1]}", f"--listening-port={port}"),
        *(f"--pidfile={folder / 'coturn.pid'}", f"--userdb={folder / 'coturn.db'}"),
        *("--log-file=stdout", "--simple-log", *options),
        stdout=PIPE,
        stderr=DEVNULL,
    )
    reading = asyncio.create_task(_drained(process.stdout))
    try:
        await _listens(addresses[0], port, process, within)
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
