"""Many calls at once, and what the server's own figures say of them.

    python benchmarks/many_calls.py --calls 16 --seconds 300 -- --agent echo --media-workers 2
    python benchmarks/many_calls.py --calls 64 --seconds 180 -- --agent mirror --media-workers 8

Starts a server with the options after `--`, puts `rtc-agent load` on it, and prints one JSON
object: the callers' figures, and from `/metrics` what happened meanwhile to the engine's ticks, to
every process's event loop, and to the playout of the calls. Its exit status is that of the load.

Each phase has a line on stderr. Ended by a signal, it prints what the server counted so far;
however it ends, also by SIGKILL, server and callers end with it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from rtc_agent.processes.signals import end_with_parent

ENDED_BY = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOP_S = 20.0
"""That the server may take to stop before it is killed; its children end with it."""
LOOK_EVERY_S = 0.5
CALLS = "rtc_agent_calls"
RTC_AGENT = (sys.executable, "-m", "rtc_agent")
LAG = "rtc_agent_loop_lag_seconds"
Figures = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


def figures(url: str) -> Figures:
    """Every sample of `/metrics` by its name and labels."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as response:
        text = response.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def summed(before: Figures, after: Figures, name: str) -> float:
    """How much all samples of a name grew together."""
    return sum(value - before.get(key, 0.0) for key, value in after.items() if key[0] == name)


def quantile_ms(before: Figures, after: Figures, worker: str, share: float) -> float:
    """A quantile of a process's loop lag, interpolated within its bucket as Prometheus does."""
    buckets = sorted(
        (float(dict(labels)["le"]), value - before.get((name, labels), 0.0))
        for (name, labels), value in after.items()
        if name == f"{LAG}_bucket" and dict(labels).get("worker", "") == worker
    )
    wanted, low, counted = share * buckets[-1][1], 0.0, 0.0
    for high, count in buckets:
        if count >= wanted:
            if high == float("inf"):
                return low * 1e3
            inside = (wanted - counted) / max(1e-9, count - counted)
            return (low + inside * (high - low)) * 1e3
        low, counted = high, count
    return low * 1e3


def compared(before: Figures, after: Figures) -> dict[str, Any]:
    """What the server says of the time between."""
    workers = {dict(labels).get("worker", "") for name, labels in after if name == f"{LAG}_count"}
    steps = summed(before, after, "rtc_agent_engine_step_seconds_count")
    return {
        "ticks": summed(before, after, "rtc_agent_engine_ticks_total"),
        "ticks_skipped": summed(before, after, "rtc_agent_engine_skipped_ticks_total"),
        "step_ms_mean": round(
            1e3 * summed(before, after, "rtc_agent_engine_step_seconds_sum") / max(1.0, steps), 2
        ),
        "loop_lag_p99_ms": {
            worker or "server": round(quantile_ms(before, after, worker, 0.99), 2)
            for worker in sorted(workers)
        },
    }


class Ended(Exception):
    """A signal has come."""

    def __init__(self, number: int, frame: FrameType | None) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def ended_by(number: int, frame: FrameType | None) -> None:
    """Let the first signal end the work; later ones must not end the clearing up."""
    for other in ENDED_BY:
        signal.signal(other, signal.SIG_IGN)
    raise Ended(number, frame)


class Phases:
    """A line on stderr about each, with seconds since the beginning."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def say(self, what: str) -> None:
        seconds = time.monotonic() - self._began_s
        print(f"many_calls: {seconds:.1f} s: {what}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def child(*words: str) -> Iterator[subprocess.Popen[str]]:
    """`rtc-agent` with these words, gone at the end of the block or of this process."""
    process = subprocess.Popen(
        [*RTC_AGENT, *words],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=functools.partial(end_with_parent, os.getpid(), signal.SIGTERM),
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ready(server: subprocess.Popen[str]) -> str:
    """The URL of a server, once it takes calls."""
    assert server.stdout is not None
    for line in server.stdout:
        if found := re.fullmatch(r"ready (\S+)/\n", line):
            return found[1]
    raise SystemExit(f"the server did not start; its exit status is {server.wait()}")


def live_calls(now: Figures) -> int:
    """Calls of all processes in which the agent listens."""
    wanted = ("state", "live")
    return int(sum(v for (name, labels), v in now.items() if name == CALLS and wanted in labels))


def until_up(load: subprocess.Popen[str], url: str, calls: int, phases: Phases) -> None:
    """Return once so many calls are live, or no more have come for a while, or the load ended."""
    most, since = 0, time.monotonic()
    while load.poll() is None and time.monotonic() - since < STOP_S:
        with contextlib.suppress(OSError):
            live = live_calls(figures(url))
            if live >= calls:
                phases.say(f"calls up: {live}")
                return
            if live > most:
                most, since = live, time.monotonic()
        time.sleep(LOOK_EVERY_S)
    phases.say(f"calls up: only {most} of {calls}")


def result(stdout: str, status: int) -> dict[str, Any]:
    """What the load said of itself, also where calls failed; its exit status if nothing."""
    for line in reversed(stdout.splitlines()):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                return found
    return {"ok": False, "load_exit_status": status}


def measured(options: argparse.Namespace, url: str, phases: Phases) -> tuple[dict[str, Any], int]:
    """The report, and the exit status of the load or that of a program ended by a signal."""
    report: dict[str, Any] = {}
    before = figures(url)
    words = ["--calls", str(options.calls), "--json", "--seconds", str(options.seconds)]
    words += ["--processes", str(options.processes)] if options.processes else []
    try:
        with child("load", url, *words, "--ice-host", "127.0.0.1") as load:
            until_up(load, url, options.calls, phases)
            stdout, _ = load.communicate()
        status = load.returncode
        report |= result(stdout, status)
    except Ended as ended:
        report["ended_by"], status = str(ended), 128 + ended.number
    try:
        report["server"] = compared(before, figures(url))
    except OSError as error:
        report["server"] = {"error": f"no figures: {error}"}
    return report, status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, help="for the callers")
    parser.add_argument("server", nargs="*", help="options of `rtc-agent serve`, after --")
    options = parser.parse_args()
    for number in ENDED_BY:
        signal.signal(number, ended_by)
    phases = Phases()
    words = ["--port", "0", "--ice-host", "127.0.0.1", "--sessions", str(options.calls)]
    try:
        with child("serve", *words, *options.server) as server:
            url = ready(server)
            phases.say(f"server ready: {url}")
            report, status = measured(options, url, phases)
            # Before the server stops: what was measured must not wait for that.
            print(json.dumps(report), flush=True)
            phases.say("measured")
    except Ended as ended:
        phases.say(f"ended by {ended}")
        return 128 + ended.number
    phases.say("server stopped")
    return status


if __name__ == "__main__":
    sys.exit(main())
