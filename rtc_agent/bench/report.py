"""What `rtc-agent bench tick` measures, as plain values."""

from __future__ import annotations

import datetime
import gc
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, cast, get_args

import torch

from rtc_agent.bench.peer import measure_moshi, moshi_version
from rtc_agent.bench.tick import WINDOWS, TickBench
from rtc_agent.engine.devices import choose_device, usual_dtype
from rtc_agent.engine.random_model import random_model
from rtc_agent.errors import InvalidRequest
from rtc_agent.model.backend import KvDtype, backend_for
from rtc_agent.model.quantised import WeightFormat

Row = Mapping[str, Any]
_PEER_TICKS = 60


def measure(
    *,
    sessions: str,
    windows: str,
    ticks: int,
    device: str,
    dtype: str,
    kv_dtype: str,
    weights: str,
    kernels: str,
    tiny: bool,
    peer: bool,
    progress: Callable[[Row], None],
) -> dict[str, Any]:
    """Measure, one row for each number of sessions and window.

    Args:
        sessions, windows: comma-separated.
        peer: measure the `moshi` package too, where it is installed and there is a GPU.
        progress: told every row as soon as it is there.

    Raises:
        InvalidRequest: a value that does not fit.
        ConfigError: this machine cannot run it.
        BenchFailed: a session failed while it was measured.
    """
    counts = _counts(sessions)
    names = windows.split(",")
    _check("window", names, WINDOWS)
    _check("kv-dtype", [kv_dtype], get_args(KvDtype))
    _check("weights", [weights], get_args(WeightFormat))
    _check("kernels", [kernels], ("auto", "off"))
    where = choose_device(device)
    kind = usual_dtype(where) if dtype == "auto" else dtype
    _check("dtype", [kind], ("float32", "bfloat16", "float16"))
    backend = backend_for(where, kernels=kernels == "auto", kv=cast(KvDtype, kv_dtype))
    if where.type == "cpu":
        torch.set_num_threads(1)
    form = cast(WeightFormat, weights)
    parts = random_model(where, getattr(torch, kind), tiny=tiny, form=form)
    bench = TickBench(parts, backend, "int8" if kv_dtype == "int8" else kind, ticks=ticks)
    rows = []
    for count in counts:
        for row in bench.rows(count, names):
            rows.append(row.as_json())
            progress(rows[-1])
    copy_rate = bench.copy_rate
    peers = []
    if peer and where.type == "cuda" and moshi_version() is not None:
        # Its rings need the room that ours had.
        del bench, parts
        gc.collect()
        torch.cuda.empty_cache()
        for count in counts:
            peers.append(asdict(measure_moshi(count, min(ticks, _PEER_TICKS), where)))
            progress(peers[-1])
            gc.collect()
            torch.cuda.empty_cache()
    return {
        "ok": True,
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else "CPU",
        "torch": torch.__version__,
        "dtype": kind,
        "weights": weights,
        "sizes": "tiny" if tiny else "released",
        "copy_tb_s": None if copy_rate is None else round(copy_rate / 1e12, 3),
        "ticks": ticks,
        "rows": rows,
        "peers": peers,
    }


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise InvalidRequest(f"--sessions is {text!r}; it must be numbers like 1,4,16.")
    return counts


def _check(name: str, values: list[str], known: tuple[str, ...]) -> None:
    for value in values:
        if value not in known:
            raise InvalidRequest(f"--{name} is {value!r}; it must be one of {', '.join(known)}.")
