"""Which device a model runs on, and in which type."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rtc_agent.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """auto is the first GPU if there is one, else the CPU.

    Raises:
        ConfigError: there is no such device here.
    """
    if name == "auto":
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"{name!r} is no device; say auto, cpu, cuda or cuda:1.") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"There is no {name} here: torch sees {torch.cuda.device_count()} GPUs. "
            "`rtc-agent doctor` says why; --device cpu always works."
        )
    if device.type == "cuda":
        _require_code(device)
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"The device {name!r} is not supported; say auto, cpu, cuda or cuda:1.")
    return device


def runs_on(built_for: Sequence[str], major: int, minor: int) -> bool:
    """Whether code for one of these architectures (sm_86, compute_90 …) runs on a capability.

    Machine code runs on later minor versions of its own generation; what is kept as `compute` is
    translated for anything later.
    """
    for name in built_for:
        kind, _, number = name.partition("_")
        digits = number.rstrip("abcdefghijklmnopqrstuvwxyz")
        # Letters mark code for that very architecture.
        exact = digits != number
        built = divmod(int(digits), 10)
        if built == (major, minor) or (
            not exact and built <= (major, minor) and (kind == "compute" or built[0] == major)
        ):
            return True
    return False


def _require_code(device: torch.device) -> None:
    """Refuse a GPU that this torch has no code for, which it would only find out in a call."""
    major, minor = torch.cuda.get_device_capability(device)
    if not runs_on(torch.cuda.get_arch_list(), major, minor):
        name = torch.cuda.get_device_name(device)
        raise ConfigError(
            f"This torch ({torch.__version__}) has no code for {name} (sm_{major}{minor}): install "
            f"one built for another CUDA than {torch.version.cuda}, or choose --device cpu."
        )


def usual_dtype(device: torch.device) -> str:
    """The dtype of weights that suits a device."""
    return "bfloat16" if device.type == "cuda" else "float32"
