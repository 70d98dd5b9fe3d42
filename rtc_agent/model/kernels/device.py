"""Device-side helpers shared by the kernels: dependent launch and L2 prefetch.

Programmatic dependent launch (PDL, compute capability 9.0 and later) lets a kernel's blocks become
resident while the kernel before it still runs. Everything before `grid_wait` may only touch data
that no kernel of the tick writes: weights, and keys and values of earlier frames.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def grid_wait(PDL: tl.constexpr):
    """Let the next kernel become resident, then wait until the one before has finished."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()


@triton.jit
def prefetch_l2(rows, LINES: tl.constexpr, PDL: tl.constexpr):
    """Ask for the first `LINES` (a power of two) 128-byte lines at each of `rows`, into L2."""
    if PDL and LINES > 0:
        lines = rows.to(tl.uint64)[:, None] + (tl.arange(0, LINES) * 128).to(tl.uint64)[None, :]
        tl.inline_asm_elementwise(
            "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
            "=r,l",
            [lines],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )


def supports_pdl(device: torch.device) -> bool:
    """Whether dependent launch and bulk prefetch exist on the device."""
    return device.type == "cuda" and bool(torch.cuda.get_device_capability(device)[0] >= 9)
