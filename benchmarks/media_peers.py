"""Our media path beside other Python WebRTC servers, all measured in one run by one caller.

Each server echoes. Measured on loopback: mouth to ear on a quiet path, mouth to ear before and
after one lost packet, and the server's processor time a call. Ours works in 80 ms frames, as its
agents do; the others pass their audio on as it comes, which is 80 ms less to begin with.

The peers want a virtual environment of their own:

    python -m venv /tmp/peers
    /tmp/peers/bin/pip install aiortc fastrtc 'pipecat-ai[webrtc]' uvicorn

    python benchmarks/media_peers.py --peers-python /tmp/peers/bin/python
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import os
import platform
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rtc_agent.client.figures import percentiles
from rtc_agent.client.impair import Impairment
from rtc_agent.client.load import LoadOrder, load
from rtc_agent.client.offer import Answer, Signaling, SmallWebRtcSignaling, post_json
from rtc_agent.client.probe import ProbeOrder, ProbeReport, probe
from rtc_agent.errors import CallRefused, RtcAgentError
from rtc_agent.media.ice import IceSettings

LOOPBACK = IceSettings(hosts=("127.0.0.1",))
PEERS = Path(__file__).parent / "peers"
START_S = 60.0
RECOVERY_S = 2.0
"""From the lost packet to the time that counts as afterwards."""


@dataclass(frozen=True)
class FastRtcSignaling:
    """FastRTC's offer: the caller names the connection."""

    url: str

    async def answer(self, sdp: str) -> Answer:
        body = {"sdp": sdp, "type": "offer", "webrtc_id": uuid.uuid4().hex}
        reply = await post_json(f"{self.url}/webrtc/offer", body, 20.0)
        if "sdp" not in reply:
            raise CallRefused(f"FastRTC refused the call: {reply}")
        return Answer(sdp=reply["sdp"])


@dataclass(frozen=True)
class Server:
    """One of the servers compared."""

    name: str
    command: Callable[[argparse.Namespace, int], list[str]]
    signaling: Callable[[str], Signaling] = SmallWebRtcSignaling
    waits_for_ready: bool = False


def _peer(script: str, options: argparse.Namespace, port: int) -> list[str]:
    return [options.peers_python, str(PEERS / script), str(port)]


def _ours(options: argparse.Namespace, port: int) -> list[str]:
    serve = ["serve", "--agent", "echo", "--ice-host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-m", "rtc_agent", *serve, "--sessions", str(options.calls)]


SERVERS = (
    Server("rtc-agent", _ours, waits_for_ready=True),
    Server("aiortc", functools.partial(_peer, "aiortc_echo.py")),
    Server("FastRTC", functools.partial(_peer, "fastrtc_echo.py"), FastRtcSignaling),
    Server("Pipecat SmallWebRTC", functools.partial(_peer, "pipecat_echo.py")),
)


@contextlib.contextmanager
def running(server: Server, options: argparse.Namespace) -> Iterator[str]:
    """Start a server on a free port; gives its URL once it listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(
            server.command(options, port), stdout=nowhere, stderr=nowhere, env=environment
        )
    try:
        asyncio.run(_listens(process, port))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _listens(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(round(START_S / 0.1)):
        if process.poll() is not None:
            raise RuntimeError(f"the server stopped with status {process.returncode}")
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"the server did not listen within {START_S:g} s")


@dataclass(frozen=True)
class Row:
    """One server's figures, in milliseconds and percent; None where there are none."""

    name: str
    quiet: dict[str, float | int | None]
    before: float | None
    after: float | None
    holes: int
    cpu_percent: float | None
    load: dict[str, float | int | None]
    failed: int

    def cells(self) -> list[str]:
        numbers = [
            self.quiet["p50"],
            self.quiet["p95"],
            self.before,
            self.after,
            self.cpu_percent,
            self.load["p50"],
            self.load["p95"],
        ]
        shown = ["–" if number is None else f"{number:.1f}" for number in numbers]
        return [self.name, *shown, str(self.holes), str(self.failed)]


HEADINGS = (
    *("server", "quiet p50", "quiet p95", "before a loss", "after it"),
    *("CPU % a call", "all calls p50", "all calls p95", "holes", "failed"),
)


def _around_the_loss(report: ProbeReport) -> tuple[float | None, float | None]:
    """p50 before the lost packet, and from `RECOVERY_S` after it to the end."""
    lost_s = report.lost_at_s
    if lost_s is None:
        return None, None
    chirps = [c for c in report.measured.chirps if c.mouth_to_ear_ms is not None]
    before = [c.mouth_to_ear_ms for c in chirps if c.said_s < lost_s - 0.2]
    after = [c.mouth_to_ear_ms for c in chirps if c.said_s > lost_s + RECOVERY_S]
    middles = [percentiles(d for d in side if d is not None)["p50"] for side in (before, after)]
    return middles[0], middles[1]


def measure(server: Server, options: argparse.Namespace) -> Row:
    """All figures of one server."""
    with running(server, options) as url:
        order = ProbeOrder(
            url=url,
            seconds=options.seconds,
            ice=LOOPBACK,
            signaling=server.signaling,
            waits_for_ready=server.waits_for_ready,
            settle_s=3.0,
        )
        quiet = asyncio.run(probe(order))
        # Packets go out from the connection on: this one falls into the signal's first half.
        lossy = Impairment(lose_packet=round((3.0 + options.seconds * 0.4) * 50))
        lost = asyncio.run(
            probe(
                ProbeOrder(
                    url=url,
                    seconds=options.seconds,
                    impairment=lossy,
                    ice=LOOPBACK,
                    signaling=server.signaling,
                    waits_for_ready=server.waits_for_ready,
                    settle_s=3.0,
                )
            )
        )
        many = asyncio.run(
            load(
                LoadOrder(
                    url=url,
                    calls=options.calls,
                    seconds=options.seconds,
                    ramp_s=0.3,
                    ice=LOOPBACK,
                    signaling=server.signaling,
                    waits_for_ready=server.waits_for_ready,
                    settle_s=4.0,
                )
            )
        )
    before, after = _around_the_loss(lost)
    delays = [d for outcome in many.good for d in outcome.measured.delays_ms]
    cpu_percent = None
    if many.server_cpu_s is not None and many.good:
        cpu_percent = 100 * many.server_cpu_s / options.seconds / len(many.good)
    return Row(
        name=server.name,
        quiet=percentiles(quiet.measured.delays_ms),
        before=before,
        after=after,
        holes=len(quiet.measured.dropouts),
        cpu_percent=cpu_percent,
        load=percentiles(delays),
        failed=len(many.outcomes) - len(many.good),
    )


def table(rows: list[Row], options: argparse.Namespace) -> str:
    """The figures as Markdown."""
    lines = [
        f"Mouth to ear in ms, loopback, {options.seconds:g} s each, {options.calls} calls at once "
        f"for the processor's share; Python {platform.python_version()}, "
        f"{os.cpu_count()} cores.",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peers-python", help="Python with aiortc, FastRTC and Pipecat")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--calls", type=int, default=8)
    parser.add_argument("--only", nargs="*", help="names of servers, all by default")
    parser.add_argument("--output", type=Path, help="Markdown file for the table")
    options = parser.parse_args()
    chosen = [s for s in SERVERS if not options.only or s.name in options.only]
    if options.peers_python is None and any(s.command is not _ours for s in chosen):
        parser.error("the peers need --peers-python; this file's head says how to make one")
    rows = []
    for server in chosen:
        try:
            rows.append(measure(server, options))
        except (RtcAgentError, RuntimeError) as error:
            sys.stderr.write(f"{server.name}: {error}\n")
            continue
        sys.stderr.write(f"{rows[-1]}\n")
    written = table(rows, options)
    sys.stdout.write(written)
    if options.output is not None:
        options.output.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
