"""What this machine has and lacks for calls, each finding with what to do about it."""

from __future__ import annotations

import enum
import importlib.metadata
import importlib.util
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from rtc_agent.engine.agents import MODEL_PACKAGES
from rtc_agent.errors import ConfigError, KernelsUnavailable


class Level(enum.Enum):
    OK = "ok"
    NOTE = "note"
    """Something optional is missing."""
    BROKEN = "broken"
    """Calls cannot work."""


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    level: Level
    detail: str
    advice: str = ""


INSTALL_MODEL = "pip install 'rtc-agent[model]'"
_DEMO_STEPS = 12
"""Timed; a second at most where they are in time."""


def examine() -> list[Finding]:
    """Look at everything a call needs, and at what PersonaPlex needs besides."""
    return [
        _python(),
        *_core_packages(),
        *_media(),
        _addresses(),
        _page(),
        _model_packages(),
        _demo(),
        _gpu(),
        *_gpu_model(),
    ]


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", Level.OK, version)


def _core_packages() -> Iterator[Finding]:
    for name in ("aiortc", "aioice", "av", "aiohttp", "numpy", "pydantic"):
        try:
            yield Finding(name, Level.OK, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, Level.BROKEN, "not installed", "pip install rtc-agent")


def _media() -> Iterator[Finding]:
    from rtc_agent.media import aiortc_shim, rtp_path

    moved = [*aiortc_shim.check(), *rtp_path.check()]
    if moved:
        yield Finding(
            "aiortc inside",
            Level.NOTE,
            f"this aiortc has moved {', '.join(moved)}; its own slower audio path is used there",
            "install the aiortc that constraints.txt pins",
        )
    else:
        yield Finding("aiortc inside", Level.OK, "where our audio path expects it")


def _addresses() -> Finding:
    from aioice.ice import get_host_addresses

    addresses = get_host_addresses(use_ipv4=True, use_ipv6=True)
    if addresses:
        return Finding("network", Level.OK, f"{len(addresses)} addresses to offer callers")
    return Finding(
        "network",
        Level.NOTE,
        f"{socket.gethostname()} has no address but loopback",
        "only callers on this machine can be served, over 127.0.0.1",
    )


def _page() -> Finding:
    from signaling.app import page_folder

    if (page_folder() / "index.html").is_file():
        return Finding("call page", Level.OK, "its files are there")
    return Finding("call page", Level.BROKEN, "its files are missing", "install the package again")


def _model_packages() -> Finding:
    missing = [name for name in MODEL_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return Finding(
            "model packages", Level.NOTE, f"missing: {', '.join(missing)}", INSTALL_MODEL
        )
    versions = (f"{name} {importlib.metadata.version(name)}" for name in MODEL_PACKAGES[:2])
    return Finding("model packages", Level.OK, ", ".join(versions))


def _demo() -> Finding:
    from rtc_agent.model.catalog import CONFIG_FILE, DEMO_FOLDER

    if not (DEMO_FOLDER / CONFIG_FILE).is_file():
        return Finding("demo agent", Level.NOTE, "its weights are not part of this package")
    if any(importlib.util.find_spec(name) is None for name in MODEL_PACKAGES):
        return Finding("demo agent", Level.NOTE, "lacks the model packages", INSTALL_MODEL)
    from rtc_agent.engine.capacity import BUDGET_MS

    try:
        step_ms = _demo_step_ms()
    except ConfigError as error:
        return Finding("demo agent", Level.NOTE, error.message)
    figure = f"a step takes {step_ms:.0f} ms now, and {BUDGET_MS:.0f} are there"
    if step_ms > BUDGET_MS:
        advice = "its speech would break up: end what else runs here, or take a faster processor"
        return Finding("demo agent", Level.NOTE, f"too slow here: {figure}", advice)
    return Finding("demo agent", Level.OK, f"talks without a GPU, on one processor core: {figure}")


def _demo_step_ms() -> float:
    """What a step of one call takes the packaged demo on this processor: the median of a few.

    Raises:
        ConfigError: it cannot be loaded.
    """
    from rtc_agent.config import Settings
    from rtc_agent.engine.capacity import tick_times
    from rtc_agent.engine.loading import folder_stepper
    from rtc_agent.model.catalog import DEMO_FOLDER

    settings = Settings.model_validate({"agent": "demo", "device": "cpu", "sessions": 1})
    stepper, _ = folder_stepper(settings, DEMO_FOLDER, "demo", lambda _: None)
    try:
        return tick_times(stepper, ticks=_DEMO_STEPS).p50
    finally:
        stepper.shutdown()


def _gpu() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("gpu", Level.NOTE, "unknown without torch", INSTALL_MODEL)
    import torch

    if not torch.cuda.is_available():
        return Finding(
            "gpu",
            Level.NOTE,
            "none that torch can use",
            "PersonaPlex needs one; demo and echo do not",
        )
    name = torch.cuda.get_device_name(0)
    major, minor = torch.cuda.get_device_capability(0)
    from rtc_agent.engine.devices import runs_on

    if not runs_on(torch.cuda.get_arch_list(), major, minor):
        return Finding(
            "gpu",
            Level.BROKEN,
            f"this torch has no kernels for {name} (sm_{major}{minor})",
            f"install a torch built for a newer CUDA than {torch.version.cuda}",
        )
    free, total = torch.cuda.mem_get_info(0)
    return Finding("gpu", Level.OK, f"{name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free")


def _gpu_model() -> Iterator[Finding]:
    """What the GPU can hold of PersonaPlex, where there is one."""
    if any(importlib.util.find_spec(name) is None for name in MODEL_PACKAGES):
        return
    import torch

    if not torch.cuda.is_available():
        return
    from rtc_agent.model.cuda.support import require_kernels

    device = torch.device("cuda:0")
    try:
        require_kernels(device)
    except KernelsUnavailable as error:
        yield Finding("gpu kernels", Level.NOTE, "cannot run here", error.message)
    else:
        yield Finding("gpu kernels", Level.OK, "a tick is one captured graph")
    free = torch.cuda.mem_get_info(device)[0]
    yield _room(free)
    yield from _banks(free)


def _room(free: int) -> Finding:
    """How many calls fit into so many bytes of a GPU, in which form."""
    from rtc_agent.model.memory_plan import memory_need
    from rtc_agent.model.quantised import WeightFormat
    from rtc_agent.model.spec import ModelSpec

    spec = ModelSpec.released()
    forms: tuple[tuple[str, WeightFormat, str], ...] = (
        ("bfloat16", "model", "model"),
        ("--kv-dtype int8", "model", "int8"),
        ("--weights int8", "int8", "model"),
        ("--weights int4", "int4", "model"),
    )
    room = {
        name: memory_need(spec, "bfloat16", "cuda", kv_dtype=kv, form=form).sessions_in(free)
        for name, form, kv in forms
    }
    detail = ", ".join(f"{count} in {name}" for name, count in room.items())
    if not any(room.values()):
        return Finding("gpu memory", Level.NOTE, "PersonaPlex does not fit", "free some of it")
    return Finding("gpu memory", Level.OK, f"calls of PersonaPlex that fit: {detail}")


WORTH_BANKS = 16
"""A step of fewer calls is short in any case."""


def _banks(free: int) -> Iterator[Finding]:
    """What `--banks` would mean in so many bytes of a GPU: a caller waits for his own bank alone,
    and the codec's weights are there once for each."""
    from rtc_agent.engine.stepper import FRAME_S
    from rtc_agent.model.memory_plan import memory_need
    from rtc_agent.model.spec import ModelSpec

    spec = ModelSpec.released()
    rows = {
        banks: memory_need(spec, "bfloat16", "cuda", banks=banks).sessions_in(free) // banks
        for banks in (2, 4)
    }
    if 4 * rows[4] < WORTH_BANKS:
        return
    detail = " or ".join(f"--sessions {n * count} --banks {n}" for n, count in rows.items())
    yield Finding(
        "gpu banks",
        Level.OK,
        f"{detail} fits",
        "with many calls each is answered sooner in banks, if the steps of all of them fit "
        f"{1e3 * FRAME_S:.0f} ms: rtc-agent bench tick --sessions {rows[4]} times one of four",
    )
