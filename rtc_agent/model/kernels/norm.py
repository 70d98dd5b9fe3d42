"""RMSNorm with the residual sum before it, in one launch.

RMSNorm in float32, rounded once: the partial sums
of the product before it are added in a fixed order and rounded, then the residual, then the norm.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.device import grid_wait


@triton.jit(do_not_specialize=["M"])
def add_norm_kernel(
    partial_ptr,  # [SPLITS, M, D], float32 where there are several
    h_ptr,  # [M, D], updated in place
    x_ptr,  # [M, D]: the normalised rows
    alpha_ptr,  # [D]
    M,
    D,
    eps,
    SPLITS: tl.constexpr,
    NORM: tl.constexpr,  # False: only the residual sum
    BLOCK: tl.constexpr,  # D rounded up to a power of two
    PDL: tl.constexpr,
):
    row = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    ok = d < D
    dtype = h_ptr.dtype.element_ty
    if NORM:
        alpha = tl.load(alpha_ptr + d, mask=ok, other=0.0).to(tl.float32)
    grid_wait(PDL)
    at = row * D + d
    h = tl.load(h_ptr + at, mask=ok, other=0.0).to(tl.float32)
    if SPLITS > 0:
        y = tl.zeros([BLOCK], tl.float32)
        for s in tl.static_range(SPLITS):
            y += tl.load(partial_ptr + s * M * D + at, mask=ok, other=0.0)
        h = (h + y.to(dtype).to(tl.float32)).to(dtype).to(tl.float32)
        tl.store(h_ptr + at, h.to(dtype), mask=ok)
    if NORM:
        scale = tl.rsqrt(tl.sum(h * h, axis=0) / D + eps)
        tl.store(x_ptr + at, (h * (alpha * scale)).to(dtype), mask=ok)
