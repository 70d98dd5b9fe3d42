"""Many short calls, one after another: does the server keep anything of them?

    python benchmarks/short_calls.py --calls 300

Starts an echo server, makes the calls, and gives the growth of its memory a call, as the slope of
a straight line through the second half of the run, with its open files at both ends.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import time

import numpy as np

from rtc_agent.client.call_client import CallClient
from rtc_agent.client.offer import SmallWebRtcSignaling
from rtc_agent.client.server_cpu import LocalServer, find_server
from rtc_agent.client.sources import SilentPayload
from rtc_agent.errors import ServerUnreachable
from rtc_agent.media.codecs import PACKET_SAMPLES, encoder_for, silence
from rtc_agent.media.ice import IceSettings

LOOPBACK = IceSettings(hosts=("127.0.0.1",))


async def short_call(url: str, seconds: float) -> float:
    """One call; returns how long it took to get ready, in ms."""
    quiet = SilentPayload(encoder_for("opus").encode(silence(PACKET_SAMPLES)))
    async with CallClient(SmallWebRtcSignaling(url), ice=LOOPBACK, quiet=quiet) as client:
        await client.connect()
        await client.wait_ready()
        await client.wait_until(client.clock.now() + seconds)
    return client.ready_ms or 0.0


async def run(url: str, options: argparse.Namespace) -> tuple[list[int], list[float]]:
    """Resident bytes after each round of calls, and every call's time to get ready."""
    server = await _found(url)
    sizes, ready_ms = [], []
    for _ in range(0, options.calls, options.at_once):
        calls = (short_call(url, options.seconds) for _ in range(options.at_once))
        ready_ms += await asyncio.gather(*calls)
        sizes.append(server.rss_bytes())
    # A call's end is finished on the server's side a little later.
    await asyncio.sleep(3)
    print(f"open files at the end: {_files(server)}", file=sys.stderr)
    return sizes, ready_ms


async def _found(url: str) -> LocalServer:
    for _ in range(300):
        server = find_server(url)
        if server is not None:
            try:
                await short_call(url, 0.2)
            except ServerUnreachable:
                pass
            else:
                print(f"open files at the beginning: {_files(server)}", file=sys.stderr)
                return server
        await asyncio.sleep(0.1)
    raise RuntimeError("the server did not start")


def _files(server: LocalServer) -> int:
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.3)
    options = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    serve = ["serve", "--agent", "echo", "--ice-host", "127.0.0.1", "--port", str(port)]
    sessions = ["--sessions", str(options.at_once * 2)]
    with subprocess.Popen(
        [sys.executable, "-m", "rtc_agent", *serve, *sessions],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            start_s = time.monotonic()
            sizes, ready_ms = asyncio.run(run(f"http://127.0.0.1:{port}", options))
            took_s = time.monotonic() - start_s
        finally:
            process.terminate()
            process.wait(15)
    half = sizes[len(sizes) // 2 :]
    slope = np.polyfit(np.arange(len(half)) * options.at_once, np.array(half) / 1e3, 1)[0]
    print(
        f"{len(ready_ms)} calls in {took_s:.0f} s: resident memory {sizes[0] / 1e6:.1f} MB after "
        f"the first, {sizes[-1] / 1e6:.1f} MB after the last; {slope:.1f} kB a call over the "
        f"second half; ready in {np.median(ready_ms):.0f} ms"
    )


if __name__ == "__main__":
    main()
