"""Attention of the codec's transformers: two new positions a frame over a short ring, float32.

Both positions are written before either attends, so the oldest one that either may see is the same:
the ring row that the next frame's first position will take is never read.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.device import grid_wait


@triton.jit
def codec_attention_kernel(
    qkv_ptr,  # [B, 2, 3, H, D]
    k_ptr,  # [B, H, R, D]
    v_ptr,
    position_ptr,  # [B] int64: frames run; the new positions are twice that and one more
    frequency_ptr,  # [D/2] float32
    out_ptr,  # [B, 2, H, D]
    R,
    softmax_scale,
    H: tl.constexpr,
    D: tl.constexpr,
    BT: tl.constexpr,  # R rounded up to a power of two
    PDL: tl.constexpr,
):
    head = tl.program_id(0)
    row = tl.program_id(1)
    d = tl.arange(0, D)
    t = tl.arange(0, BT)
    first = tl.load(position_ptr + row) * 2
    frequency = tl.load(frequency_ptr + d // 2)
    cos0, sin0 = tl.cos(first.to(tl.float32) * frequency), tl.sin(first.to(tl.float32) * frequency)
    turned = (first + 1).to(tl.float32) * frequency
    cos1, sin1 = tl.cos(turned), tl.sin(turned)
    ring = (row * H + head).to(tl.int64) * R * D
    slot0 = (first % R).to(tl.int32)
    slot1 = ((first + 1) % R).to(tl.int32)
    # The two rows being written are taken from registers.
    seen = (t < tl.minimum(first, R)) & (t != slot0) & (t != slot1)
    at = ring + t[:, None] * D + d[None, :]
    k = tl.load(k_ptr + at, mask=seen[:, None], other=0.0)
    v = tl.load(v_ptr + at, mask=seen[:, None], other=0.0)
    grid_wait(PDL)
    base0 = qkv_ptr + (row * 6 * H + head) * D
    base1 = base0 + 3 * H * D
    q0 = _rotated(base0, cos0, sin0, D) * softmax_scale
    q1 = _rotated(base1, cos1, sin1, D) * softmax_scale
    k0 = _rotated(base0 + H * D, cos0, sin0, D)
    k1 = _rotated(base1 + H * D, cos1, sin1, D)
    v0 = tl.load(base0 + 2 * H * D + d)
    v1 = tl.load(base1 + 2 * H * D + d)
    s00 = tl.sum(q0 * k0, axis=0)
    s10 = tl.sum(q1 * k0, axis=0)
    s11 = tl.sum(q1 * k1, axis=0)
    s0 = tl.where(seen, tl.sum(k * q0[None, :], axis=1), -float("inf"))
    s1 = tl.where(seen, tl.sum(k * q1[None, :], axis=1), -float("inf"))
    m0 = tl.maximum(tl.max(s0, axis=0), s00)
    m1 = tl.maximum(tl.maximum(tl.max(s1, axis=0), s10), s11)
    p0 = tl.exp(s0 - m0)
    p1 = tl.exp(s1 - m1)
    w00 = tl.exp(s00 - m0)
    w10 = tl.exp(s10 - m1)
    w11 = tl.exp(s11 - m1)
    total0 = tl.sum(p0, axis=0) + w00
    total1 = tl.sum(p1, axis=0) + w10 + w11
    out0 = tl.sum(p0[:, None] * v, axis=0) + w00 * v0
    out1 = tl.sum(p1[:, None] * v, axis=0) + w10 * v0 + w11 * v1
    tl.store(k_ptr + ring + slot0 * D + d, k0)
    tl.store(v_ptr + ring + slot0 * D + d, v0)
    tl.store(k_ptr + ring + slot1 * D + d, k1)
    tl.store(v_ptr + ring + slot1 * D + d, v1)
    out = out_ptr + (row * 2 * H + head) * D + d
    tl.store(out, out0 / total0)
    tl.store(out + H * D, out1 / total1)


@triton.jit
def _rotated(base_ptr, cos, sin, D: tl.constexpr):
    d = tl.arange(0, D)
    own = tl.load(base_ptr + d)
    other = tl.load(base_ptr + (d ^ 1))
    return own * cos + tl.where(d % 2 == 0, -1.0, 1.0) * other * sin
