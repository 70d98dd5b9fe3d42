"""Decode attention of one new position over a ring of keys and values, per row as long as it is.

Row b at position p writes its key and value to ring row `p mod R` and attends to its last R
positions, which are the first min(p + 1, R) ring rows. A (row, head) pair is cut into blocks of
`SPLIT` ring rows, always at the same places, and only blocks that hold something are read; the
block that finishes last adds the others up in order. So a row reads only what it has, and its bits
depend neither on the other rows nor on which block came last.

Keys are rotated (RoPE, interleaved pairs, float32) when written. Keys and values are stored in the
model's type, or as int8 with one float32 scale for each (position, head).
"""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.device import grid_wait, prefetch_l2


@triton.jit
def rotate(base_ptr, cos_ptr, sin_ptr, D: tl.constexpr, dtype: tl.constexpr):
    """One head's vector, rotated pairwise in float32 and rounded to `dtype`."""
    d = tl.arange(0, D)
    own = tl.load(base_ptr + d).to(tl.float32)
    other = tl.load(base_ptr + (d ^ 1)).to(tl.float32)
    cos = tl.load(cos_ptr + d // 2)
    sin = tl.load(sin_ptr + d // 2)
    sign = tl.where(d % 2 == 0, -1.0, 1.0)
    return (own * cos + sign * other * sin).to(dtype)


@triton.jit
def quantise(v):
    """int8 values and the scale that gives them back; `v` float32."""
    scale = tl.maximum(tl.max(tl.abs(v), axis=0), 1e-12) / 127.0
    q = v / scale
    q = tl.floor(q + 0.5)
    return tl.minimum(tl.maximum(q, -127.0), 127.0).to(tl.int8), scale


@triton.jit
def ring_attention_kernel(
    qkv_ptr,  # [B, 3, H, D]
    k_ptr,  # [B, H, R, D]
    v_ptr,  # [B, H, R, D]
    k_scale_ptr,  # [B, H, R] float32, INT8 only
    v_scale_ptr,
    position_ptr,  # [B] int64: the position being run
    cos_ptr,  # [B, D/2] float32 at that position
    sin_ptr,
    out_ptr,  # [B, H, D]
    partial_ptr,  # [B, H, SPLITS, D] float32
    stat_ptr,  # [B, H, SPLITS, 2] float32: maximum, sum
    arrived_ptr,  # [B, H] int32, zero between launches
    R,
    softmax_scale,
    H: tl.constexpr,
    D: tl.constexpr,
    SPLIT: tl.constexpr,
    SPLITS: tl.constexpr,
    SPLITS_P2: tl.constexpr,
    BT: tl.constexpr,
    STAGES: tl.constexpr,
    DOT: tl.constexpr,  # tensor cores
    INT8: tl.constexpr,
    WHOLE: tl.constexpr,  # BT == SPLIT: the block is loaded at once, before the wait
    AHEAD: tl.constexpr,  # ring rows fetched into L2 before the wait
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    split = tl.program_id(0)
    head = tl.program_id(1)
    row = tl.program_id(2)
    pair = row * H + head
    d = tl.arange(0, D)
    t = tl.arange(0, BT)
    dtype = out_ptr.dtype.element_ty
    position = tl.load(position_ptr + row)
    length = tl.minimum(position + 1, R).to(tl.int32)
    slot = (position % R).to(tl.int32)
    used = tl.cdiv(length, SPLIT)
    start = split * SPLIT
    stop = tl.minimum(start + SPLIT, length)
    k_base = k_ptr + pair.to(tl.int64) * R * D
    v_base = v_ptr + pair.to(tl.int64) * R * D
    if WHOLE:
        inside = (start + t < stop)[:, None]
        block = (start + t)[:, None] * D + d[None, :]
        whole_k = tl.load(k_base + block, mask=inside, other=0.0)
        whole_v = tl.load(v_base + block, mask=inside, other=0.0)
    elif AHEAD > 0:
        if split < used:
            ahead = start + tl.arange(0, AHEAD)
            prefetch_l2(
                k_base + ahead * D, D * k_ptr.dtype.element_ty.primitive_bitwidth // 1024, PDL
            )
            prefetch_l2(
                v_base + ahead * D, D * v_ptr.dtype.element_ty.primitive_bitwidth // 1024, PDL
            )
    grid_wait(PDL)
    if split < used:
        q = rotate(
            qkv_ptr + (row * 3 * H + head) * D,
            cos_ptr + row * (D // 2),
            sin_ptr + row * (D // 2),
            D,
            dtype,
        )
        m = tl.full([], -float("inf"), tl.float32)
        total = tl.full([], 0.0, tl.float32)
        if DOT:
            acc = tl.zeros([16, D], tl.float32)
            q16 = tl.broadcast_to(q[None, :], [16, D])
        else:
            acc = tl.zeros([BT, D], tl.float32)
        qf = q.to(tl.float32) * softmax_scale
        mine = (slot >= start) & (slot < start + SPLIT)
        v_new = tl.zeros([D], tl.float32)
        if mine:
            k_new = rotate(
                qkv_ptr + ((row * 3 + 1) * H + head) * D,
                cos_ptr + row * (D // 2),
                sin_ptr + row * (D // 2),
                D,
                dtype,
            )
            v_raw = tl.load(qkv_ptr + ((row * 3 + 2) * H + head) * D + d)
            at = pair.to(tl.int64) * R + slot
            v_new = v_raw.to(tl.float32)
            if INT8:
                k_int, ks = quantise(k_new.to(tl.float32))
                v_int, vs = quantise(v_new)
                tl.store(k_ptr + at * D + d, k_int)
                tl.store(v_ptr + at * D + d, v_int)
                tl.store(k_scale_ptr + at, ks)
                tl.store(v_scale_ptr + at, vs)
            else:
                tl.store(k_ptr + at * D + d, k_new)
                tl.store(v_ptr + at * D + d, v_raw)
            m = tl.sum(qf * k_new.to(tl.float32), axis=0)
            total = tl.full([], 1.0, tl.float32)
        m_new = m
        for t0 in tl.range(start, stop, BT, num_stages=STAGES):
            tt = t0 + t
            # The row being written is taken from registers: its stored copy may be the old one.
            keep = (tt < stop) & (tt != slot)
            if WHOLE:
                kt = whole_k
                vt = whole_v
            else:
                held = (tt < stop)[:, None]
                kt = tl.load(k_base + tt[:, None] * D + d[None, :], mask=held, other=0.0)
                vt = tl.load(v_base + tt[:, None] * D + d[None, :], mask=held, other=0.0)
            if DOT:
                s16 = tl.dot(q16, kt.to(dtype).T, input_precision=PRECISION)
                s = tl.max(s16, axis=0) * softmax_scale
            else:
                s = tl.sum(kt.to(tl.float32) * qf[None, :], axis=1)
            if INT8:
                s = s * tl.load(k_scale_ptr + pair.to(tl.int64) * R + tt, mask=tt < stop, other=0.0)
            s = tl.where(keep, s, -float("inf"))
            m_next = tl.maximum(m, tl.max(s, axis=0))
            # A block may hold nothing visible; keep the exponents finite then.
            m_safe = tl.where(m_next == -float("inf"), 0.0, m_next)
            fade = tl.exp(m - m_safe)
            p = tl.exp(s - m_safe)
            total = total * fade + tl.sum(p, axis=0)
            if INT8:
                p = p * tl.load(v_scale_ptr + pair.to(tl.int64) * R + tt, mask=tt < stop, other=0.0)
            if DOT:
                p16 = tl.broadcast_to(p.to(dtype)[None, :], [16, BT])
                acc = tl.dot(p16, vt.to(dtype), acc * fade, input_precision=PRECISION)
            else:
                acc = acc * fade + p[:, None] * vt.to(tl.float32)
            m = m_next
        # m_new is the new position's score where this block wrote it, else -inf.
        m_safe = tl.where(m == -float("inf"), 0.0, m)
        own = tl.exp(m_new - m_safe)
        if DOT:
            o = tl.max(acc, axis=0)
        else:
            o = tl.sum(acc, axis=0)
        o = o + own * v_new
        if used == 1:
            tl.store(out_ptr + pair * D + d, (o / total).to(dtype))
        else:
            tl.store(partial_ptr + (pair * SPLITS + split) * D + d, o)
            tl.store(stat_ptr + (pair * SPLITS + split) * 2, m)
            tl.store(stat_ptr + (pair * SPLITS + split) * 2 + 1, total)
            tl.debug_barrier()
            before = tl.atomic_add(arrived_ptr + pair, 1, sem="acq_rel")
            if before == used - 1:
                tl.store(arrived_ptr + pair, 0)
                i = tl.arange(0, SPLITS_P2)
                there = i < used
                stats = stat_ptr + (pair * SPLITS + i) * 2
                maxima = tl.load(stats, mask=there, other=-float("inf"))
                weight = tl.exp(maxima - tl.max(maxima, axis=0))
                sums = tl.load(stats + 1, mask=there, other=0.0)
                o = tl.load(
                    partial_ptr + (pair * SPLITS + i)[:, None] * D + d[None, :],
                    mask=there[:, None],
                    other=0.0,
                )
                o = tl.sum(o * weight[:, None], axis=0) / tl.sum(sums * weight, axis=0)
                tl.store(out_ptr + pair * D + d, o.to(dtype))
