"""What this machine has and lacks for calls, each finding with what to do about it."""

from __future__ import annotations

import enum
import importlib.metadata
import importlib.util
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass


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


MODEL_PACKAGES = ("torch", "safetensors", "sentencepiece", "pyloudnorm")
INSTALL_MODEL = "pip install 'rtc-agent[model]'"


def examine() -> list[Finding]:
    """Look at everything a call needs, and at what PersonaPlex needs besides."""
    return [
        _python(),
        *_core_packages(),
        *_media(),
        _addresses(),
        _page(),
        _model_packages(),
        _gpu(),
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
    from rtc_agent.media import aiortc_shim

    moved = aiortc_shim.check()
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


def _gpu() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("gpu", Level.NOTE, "unknown without torch", INSTALL_MODEL)
    import torch

    if not torch.cuda.is_available():
        return Finding(
            "gpu", Level.NOTE, "none that torch can use", "PersonaPlex needs one; echo does not"
        )
    name = torch.cuda.get_device_name(0)
    major, minor = torch.cuda.get_device_capability(0)
    if f"sm_{major}{minor}" not in torch.cuda.get_arch_list():
        return Finding(
            "gpu",
            Level.BROKEN,
            f"this torch has no kernels for {name} (sm_{major}{minor})",
            f"install a torch built for a newer CUDA than {torch.version.cuda}",
        )
    free, total = torch.cuda.mem_get_info(0)
    return Finding("gpu", Level.OK, f"{name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free")
