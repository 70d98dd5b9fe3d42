"""Attention of the codec's transformers: two new positions a frame over a short ring, float32.

Both positions are written before either attends, so the oldest one that either may see is the same:
the ring row that the next frame's first position will take is never read.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.device import grid_wait


@triton.jit
def _attend(q, k, v, s_mask, m, total, acc):
    s = tl.where(s_mask, tl.sum(k * q[None, :], axis=1), -float("inf"))
    m_next = tl.maximum(m, tl.max(s, axis=0))
    fade = tl.exp(m - m_next)
    p = tl.exp(s - m_next)
    return m_next, total * fade + tl.sum(p, axis=0), acc * fade + p[:, None] * v


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
    BT: tl.constexpr,
    PDL: tl.constexpr,
):
    head = tl.program_id(0)
    row = tl.program_id(1)
    d = tl.arange(0, D)
    t = tl.arange(0, BT)
    grid_wait(PDL)
    first = tl.load(position_ptr + row) * 2
    frequency = tl.load(frequency_ptr + d // 2)
    cos0, sin0 = tl.cos(first.to(tl.float32) * frequency), tl.sin(first.to(tl.float32) * frequency)
    turned = (first + 1).to(tl.float32) * frequency
    cos1, sin1 = tl.cos(turned), tl.sin(turned)
    base0 = qkv_ptr + (row * 6 * H + head) * D
    base1 = base0 + 3 * H * D
    q0 = _rotated(base0, cos0, sin0, D) * softmax_scale
    q1 = _rotated(base1, cos1, sin1, D) * softmax_scale
    k0 = _rotated(base0 + H * D, cos0, sin0, D)
    k1 = _rotated(base1 + H * D, cos1, sin1, D)
    v0 = tl.load(base0 + 2 * H * D + d)
    v1 = tl.load(base1 + 2 * H * D + d)
    ring = (row * H + head).to(tl.int64) * R * D
    slot0 = (first % R).to(tl.int32)
    slot1 = ((first + 1) % R).to(tl.int32)
    held = tl.minimum(first, R).to(tl.int32)
    m0 = tl.sum(q0 * k0, axis=0)
    total0 = tl.full([], 1.0, tl.float32)
    acc0 = tl.zeros([BT, D], tl.float32)
    s10 = tl.sum(q1 * k0, axis=0)
    s11 = tl.sum(q1 * k1, axis=0)
    m1 = tl.maximum(s10, s11)
    total1 = tl.exp(s10 - m1) + tl.exp(s11 - m1)
    acc1 = tl.zeros([BT, D], tl.float32)
    n0 = m0
    n1 = m1
    for t0 in range(0, held, BT):
        tt = t0 + t
        ok = tt < held
        k = tl.load(k_ptr + ring + tt[:, None] * D + d[None, :], mask=ok[:, None], other=0.0)
        v = tl.load(v_ptr + ring + tt[:, None] * D + d[None, :], mask=ok[:, None], other=0.0)
        # The two rows being written are taken from registers.
        seen = ok & (tt != slot0) & (tt != slot1)
        m0, total0, acc0 = _attend(q0, k, v, seen, m0, total0, acc0)
        m1, total1, acc1 = _attend(q1, k, v, seen, m1, total1, acc1)
    out0 = tl.sum(acc0, axis=0) + tl.exp(n0 - m0) * v0
    fade = tl.exp(n1 - m1)
    out1 = tl.sum(acc1, axis=0) + fade * (tl.exp(s10 - n1) * v0 + tl.exp(s11 - n1) * v1)
    tl.debug_barrier()
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
