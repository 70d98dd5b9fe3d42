"""The depformer's attention: one new step over the few steps of this frame, no positions.

Keys and values live for one frame only. One block a row holds all heads, since the whole history
is a few kilobytes and a launch costs more than the work.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.device import grid_wait


@triton.jit
def step_attention_kernel(
    qkv_ptr,  # [B, 3, H, D]
    k_ptr,  # [B, STEPS, H, D]
    v_ptr,  # [B, STEPS, H, D]
    out_ptr,  # [B, H, D]
    step,  # this step's index: keys of steps first … step are seen
    first,
    softmax_scale,
    STEPS: tl.constexpr,
    H: tl.constexpr,
    HB: tl.constexpr,  # heads a block
    D: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0)
    h = tl.program_id(1) * HB + tl.arange(0, HB)
    d = tl.arange(0, D)
    j = tl.arange(0, STEPS)
    at = h[:, None] * D + d[None, :]
    ok = (h < H)[:, None] & (d >= 0)[None, :]
    grid_wait(PDL)
    base = qkv_ptr + row * 3 * H * D
    q = tl.load(base + at, mask=ok, other=0.0).to(tl.float32) * softmax_scale
    k_new = tl.load(base + H * D + at, mask=ok, other=0.0)
    v_new = tl.load(base + 2 * H * D + at, mask=ok, other=0.0)
    past = (row * STEPS + j)[:, None, None] * H * D + at[None, :, :]
    seen = ((j >= first) & (j < step))[:, None, None] & ok[None, :, :]
    k = tl.load(k_ptr + past, mask=seen, other=0.0).to(tl.float32)
    v = tl.load(v_ptr + past, mask=seen, other=0.0).to(tl.float32)
    tl.store(k_ptr + (row * STEPS + step) * H * D + at, k_new, mask=ok)
    tl.store(v_ptr + (row * STEPS + step) * H * D + at, v_new, mask=ok)
    own = tl.sum(q * k_new.to(tl.float32), axis=1)
    s = tl.sum(k * q[None, :, :], axis=2)
    s = tl.where(((j >= first) & (j < step))[:, None], s, -float("inf"))
    top = tl.maximum(tl.max(s, axis=0), own)
    own = tl.exp(own - top)
    p = tl.exp(s - top[None, :])
    out = own[:, None] * v_new.to(tl.float32) + tl.sum(p[:, :, None] * v, axis=0)
    out = out / (own + tl.sum(p, axis=0))[:, None]
    tl.store(out_ptr + row * H * D + at, out.to(out_ptr.dtype.element_ty), mask=ok)
