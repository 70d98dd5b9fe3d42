"""How the tick's kernels are launched on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from rtc_agent.model.kernels.device import supports_pdl


@dataclass(frozen=True, slots=True)
class Launch:
    """What every launch of one device has in common."""

    pdl: bool
    """Dependent launch: a kernel's blocks become resident while the one before still runs."""
    precision: str
    """How float32 products run: `tf32x3` keeps float32's accuracy on the tensor cores."""

    @classmethod
    def on(cls, device: torch.device) -> Launch:
        """The settings for a device; the interpreter's on a machine without one."""
        if device.type != "cuda":
            return cls(pdl=False, precision="ieee")
        return cls(pdl=supports_pdl(device), precision="tf32x3")

    def options(self, warps: int) -> dict[str, Any]:
        """Launch options next to a kernel's own arguments."""
        options: dict[str, Any] = {"num_warps": warps, "PDL": self.pdl}
        if self.pdl:
            options["launch_pdl"] = True
        return options


def shared_memory(device: torch.device) -> int:
    """Bytes that a block may have; without a device, what the kernels were measured with."""
    if device.type != "cuda":
        return 227 << 10
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)


def next_power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)
