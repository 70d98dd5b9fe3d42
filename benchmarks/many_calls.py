"""Many calls at once, and what the server's own figures say of them.

    python benchmarks/many_calls.py --calls 16 --seconds 300 -- --agent echo --media-workers 2
    python benchmarks/many_calls.py --calls 64 --seconds 180 -- --agent mirror --media-workers 8

Starts a server with the options after `--`, puts `rtc-agent load` on it, and prints one JSON
object: the callers' figures, and from `/metrics` what happened meanwhile to the engine's ticks, to
every process's event loop, and to the playout of the calls.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

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


def started(options: list[str], sessions: int) -> tuple[subprocess.Popen[str], str]:
    """A server that is ready, and its URL."""
    server = subprocess.Popen(
        [*RTC_AGENT, "serve", "--port", "0", "--ice-host", "127.0.0.1"]
        + ["--sessions", str(sessions), *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in _lines(server):
        if found := re.fullmatch(r"ready (\S+)/\n", line):
            return server, found[1]
    raise SystemExit("the server did not start")


def _lines(server: subprocess.Popen[str]) -> Iterator[str]:
    assert server.stdout is not None
    yield from server.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, help="for the callers")
    parser.add_argument("server", nargs="*", help="options of `rtc-agent serve`, after --")
    options = parser.parse_args()
    server, url = started(options.server, options.calls)
    try:
        before = figures(url)
        load = [*RTC_AGENT, "load", url, "--calls", str(options.calls), "--json"]
        load += ["--seconds", str(options.seconds), "--ice-host", "127.0.0.1"]
        if options.processes:
            load += ["--processes", str(options.processes)]
        outcome = subprocess.run(load, stdout=subprocess.PIPE, text=True, check=False)
        report = json.loads(outcome.stdout.splitlines()[-1])
        report["server"] = compared(before, figures(url))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
    print(json.dumps(report))
    return outcome.returncode


if __name__ == "__main__":
    sys.exit(main())
