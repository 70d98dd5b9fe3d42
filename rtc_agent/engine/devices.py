"""Which device a model runs on, and in which type."""

from __future__ import annotations

import torch

from rtc_agent.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """auto is the first GPU if there is one, else the CPU.

    Raises:
        ConfigError: there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"{name!r} is no device; say auto, cpu, cuda or cuda:1.") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"There is no {name} here: torch sees {torch.cuda.device_count()} GPUs. "
            "`rtc-agent doctor` says why; --device cpu always works."
        )
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"The device {name!r} is not supported; say auto, cpu, cuda or cuda:1.")
    return device


def usual_dtype(device: torch.device) -> str:
    """The dtype of weights that suits a device."""
    return "bfloat16" if device.type == "cuda" else "float32"
