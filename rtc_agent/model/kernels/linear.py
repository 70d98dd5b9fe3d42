"""Skinny matrix products: up to 128 rows against a weight that is read from memory once.

The tick is bound by memory bandwidth, so a product is as fast as its weight streams in. Two forms:

* `gemv`: one row, on the plain units, with RMSNorm before and the residual or the gate after it
  in the same launch;
* `linear`: 2 … 128 rows, on the tensor cores, optionally split along K into float32 partial sums
  that `norm.add_norm` adds up in a fixed order.

A row's result never depends on the other rows: every row goes through the same sequence of
operations, in the same order, whatever its neighbours hold. Rounding happens where plain PyTorch
rounds: after the norm, after the product, after the activation, after the residual.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.device import grid_wait, prefetch_l2


@triton.jit
def silu_gate(a, b, dtype: tl.constexpr):
    """`silu(a) · b` on float32 sums, rounded to `dtype` where PyTorch would."""
    a = a.to(dtype).to(tl.float32)
    b = b.to(dtype).to(tl.float32)
    s = (a / (1.0 + tl.exp(-a))).to(dtype).to(tl.float32)
    return (s * b).to(dtype)


@triton.jit
def gemv_kernel(
    x_ptr,  # [K] or, gated output aside, the normalised row's source
    w_ptr,  # [N, K]; [2·N, K] when GATE
    y_ptr,  # [N]
    residual_ptr,  # [N], RESIDUAL only; may be y_ptr
    alpha_ptr,  # [K], NORM only
    N,
    K,
    eps,
    NORM: tl.constexpr,
    GATE: tl.constexpr,
    RESIDUAL: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    KP: tl.constexpr,  # K rounded up to a power of two, NORM only
    STAGES: tl.constexpr,
    EVEN: tl.constexpr,  # N % BN == 0 and K % BK == 0
    AHEAD: tl.constexpr,  # 128-byte lines of each weight row fetched into L2 before the wait
    PDL: tl.constexpr,
):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    rows = w_ptr + n.to(tl.int64) * K
    prefetch_l2(rows, AHEAD, PDL)
    if GATE:
        gate_rows = w_ptr + (n + N).to(tl.int64) * K
        prefetch_l2(gate_rows, AHEAD, PDL)
    dtype = y_ptr.dtype.element_ty
    grid_wait(PDL)
    scale = 1.0
    if NORM:
        all_k = tl.arange(0, KP)
        whole = tl.load(x_ptr + all_k, mask=all_k < K, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(whole * whole, axis=0) / K + eps)
    acc = tl.zeros([BN, BK], tl.float32)
    acc2 = tl.zeros([BN, BK], tl.float32)
    for k0 in tl.range(0, K, BK, num_stages=STAGES):
        kk = k0 + k
        if EVEN:
            w = tl.load(rows[:, None] + kk[None, :])
            x = tl.load(x_ptr + kk).to(tl.float32)
        else:
            w = tl.load(
                rows[:, None] + kk[None, :], mask=(n < N)[:, None] & (kk < K)[None, :], other=0.0
            )
            x = tl.load(x_ptr + kk, mask=kk < K, other=0.0).to(tl.float32)
        if NORM:
            if EVEN:
                alpha = tl.load(alpha_ptr + kk).to(tl.float32)
            else:
                alpha = tl.load(alpha_ptr + kk, mask=kk < K, other=0.0).to(tl.float32)
            x = (x * (alpha * scale)).to(dtype).to(tl.float32)
        acc += w.to(tl.float32) * x[None, :]
        if GATE:
            if EVEN:
                w2 = tl.load(gate_rows[:, None] + kk[None, :])
            else:
                w2 = tl.load(
                    gate_rows[:, None] + kk[None, :],
                    mask=(n < N)[:, None] & (kk < K)[None, :],
                    other=0.0,
                )
            acc2 += w2.to(tl.float32) * x[None, :]
    y = tl.sum(acc, axis=1)
    if GATE:
        y = silu_gate(y, tl.sum(acc2, axis=1), dtype)
    else:
        y = y.to(dtype)
    if RESIDUAL:
        r = tl.load(residual_ptr + n, mask=n < N, other=0.0)
        y = (r.to(tl.float32) + y.to(tl.float32)).to(dtype)
    tl.store(y_ptr + n, y, mask=n < N)


@triton.jit
def gemv_ahead_kernel(
    x_ptr,  # [ROWS, K], the rest as in gemv_kernel with ROWS in front
    w_ptr,
    y_ptr,
    residual_ptr,
    alpha_ptr,
    N,
    K: tl.constexpr,
    eps,
    ROWS: tl.constexpr,
    NORM: tl.constexpr,
    GATE: tl.constexpr,
    RESIDUAL: tl.constexpr,
    BN: tl.constexpr,
    KA: tl.constexpr,  # the largest power of two in K
    KB: tl.constexpr,  # the rest of K rounded up to a power of two, or zero
    PDL: tl.constexpr,
):
    """As `gemv_kernel`, all of a block's weights loaded before the input is ready."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    ok = n < N
    rows = w_ptr + n.to(tl.int64)[:, None] * K
    gate_rows = w_ptr + (n + N).to(tl.int64)[:, None] * K
    ka = tl.arange(0, KA)
    dtype = y_ptr.dtype.element_ty
    wa = tl.load(rows + ka[None, :], mask=ok[:, None], other=0.0)
    if GATE:
        ga = tl.load(gate_rows + ka[None, :], mask=ok[:, None], other=0.0)
    if KB > 0:
        kb = KA + tl.arange(0, KB)
        rest = ok[:, None] & (kb < K)[None, :]
        wb = tl.load(rows + kb[None, :], mask=rest, other=0.0)
        if GATE:
            gb = tl.load(gate_rows + kb[None, :], mask=rest, other=0.0)
    if NORM:
        alpha = tl.load(alpha_ptr + ka).to(tl.float32)
        if KB > 0:
            alpha_b = tl.load(alpha_ptr + kb, mask=kb < K, other=0.0).to(tl.float32)
    grid_wait(PDL)
    for m in tl.static_range(ROWS):
        x = tl.load(x_ptr + m * K + ka).to(tl.float32)
        if KB > 0:
            xb = tl.load(x_ptr + m * K + kb, mask=kb < K, other=0.0).to(tl.float32)
        if NORM:
            squares = tl.sum(x * x, axis=0)
            if KB > 0:
                squares += tl.sum(xb * xb, axis=0)
            scale = tl.rsqrt(squares / K + eps)
            x = (x * (alpha * scale)).to(dtype).to(tl.float32)
            if KB > 0:
                xb = (xb * (alpha_b * scale)).to(dtype).to(tl.float32)
        y = tl.sum(wa.to(tl.float32) * x[None, :], axis=1)
        if KB > 0:
            y += tl.sum(wb.to(tl.float32) * xb[None, :], axis=1)
        if GATE:
            g = tl.sum(ga.to(tl.float32) * x[None, :], axis=1)
            if KB > 0:
                g += tl.sum(gb.to(tl.float32) * xb[None, :], axis=1)
            out = silu_gate(y, g, dtype)
        else:
            out = y.to(dtype)
        if RESIDUAL:
            r = tl.load(residual_ptr + m * N + n, mask=ok, other=0.0)
            out = (r.to(tl.float32) + out.to(tl.float32)).to(dtype)
        tl.store(y_ptr + m * N + n, out, mask=ok)


@triton.jit
def linear_kernel(
    x_ptr,  # [M, K], row stride x_stride
    w_ptr,  # [N, K]; [2·N, K] when GATE
    y_ptr,  # [M, N]; PARTIAL: [SPLIT_K, M, N] float32
    M,
    N,
    K,
    x_stride,
    GATE: tl.constexpr,
    PARTIAL: tl.constexpr,
    SPLIT_K: tl.constexpr,
    MP: tl.constexpr,  # M rounded up to a power of two, 16 at least
    BN: tl.constexpr,
    BK: tl.constexpr,
    STAGES: tl.constexpr,
    FLIP: tl.constexpr,  # the weight is the left operand
    EVEN: tl.constexpr,  # N % BN == 0 and K % (BK · SPLIT_K) == 0
    AHEAD: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    split = tl.program_id(1)
    m = tl.arange(0, MP)
    k = tl.arange(0, BK)
    span = tl.cdiv(tl.cdiv(K, BK), SPLIT_K) * BK
    start = split * span
    stop = tl.minimum(start + span, K)
    rows = w_ptr + n.to(tl.int64) * K
    prefetch_l2(rows + start, AHEAD, PDL)
    if GATE:
        gate_rows = w_ptr + (n + N).to(tl.int64) * K
        prefetch_l2(gate_rows + start, AHEAD, PDL)
    grid_wait(PDL)
    if FLIP:
        acc = tl.zeros([BN, MP], tl.float32)
        acc2 = tl.zeros([BN, MP], tl.float32)
    else:
        acc = tl.zeros([MP, BN], tl.float32)
        acc2 = tl.zeros([MP, BN], tl.float32)
    for k0 in tl.range(start, stop, BK, num_stages=STAGES):
        kk = k0 + k
        if EVEN:
            w = tl.load(rows[:, None] + kk[None, :])
            x = tl.load(
                x_ptr + m[:, None] * x_stride + kk[None, :], mask=(m < M)[:, None], other=0.0
            )
        else:
            w = tl.load(
                rows[:, None] + kk[None, :], mask=(n < N)[:, None] & (kk < stop)[None, :], other=0.0
            )
            x = tl.load(
                x_ptr + m[:, None] * x_stride + kk[None, :],
                mask=(m < M)[:, None] & (kk < stop)[None, :],
                other=0.0,
            )
        if FLIP:
            acc = tl.dot(w, x.T, acc, input_precision=PRECISION)
        else:
            acc = tl.dot(x, w.T, acc, input_precision=PRECISION)
        if GATE:
            if EVEN:
                w2 = tl.load(gate_rows[:, None] + kk[None, :])
            else:
                w2 = tl.load(
                    gate_rows[:, None] + kk[None, :],
                    mask=(n < N)[:, None] & (kk < stop)[None, :],
                    other=0.0,
                )
            if FLIP:
                acc2 = tl.dot(w2, x.T, acc2, input_precision=PRECISION)
            else:
                acc2 = tl.dot(x, w2.T, acc2, input_precision=PRECISION)
    if FLIP:
        at = m[None, :] * N + n[:, None]
        ok = (m < M)[None, :] & (n < N)[:, None]
    else:
        at = m[:, None] * N + n[None, :]
        ok = (m < M)[:, None] & (n < N)[None, :]
    if PARTIAL:
        tl.store(y_ptr + split * M * N + at, acc, mask=ok)
    elif GATE:
        tl.store(y_ptr + at, silu_gate(acc, acc2, y_ptr.dtype.element_ty), mask=ok)
    else:
        tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=ok)
