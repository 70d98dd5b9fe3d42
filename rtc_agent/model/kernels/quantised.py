"""Skinny products against weights of eight or four bits, laid out as `QuantisedWeight`.

Same two forms and same roundings as in `linear`; the weights are widened in registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.device import grid_wait
from rtc_agent.model.kernels.linear import silu_gate


@triton.jit
def _input(x_ptr, alpha_ptr, k, inside, scale, NORM: tl.constexpr, dtype: tl.constexpr):
    """Part of the one row, normalised where that is asked for."""
    x = tl.load(x_ptr + k, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        alpha = tl.load(alpha_ptr + k, mask=inside, other=0.0).to(tl.float32)
        x = (x * (alpha * scale)).to(dtype).to(tl.float32)
    return x


@triton.jit
def _scaled_sums(
    w, x, scale_ptr, groups, ok, BN: tl.constexpr, PARTS: tl.constexpr, GROUP: tl.constexpr
):
    """[BN, PARTS]: each group's share of the products, with its scale."""
    sums = tl.sum(tl.reshape(w * x[None, :], [BN, PARTS, GROUP]), axis=2)
    return sums * tl.load(scale_ptr + groups, mask=ok, other=0.0).to(tl.float32)


@triton.jit
def gemv_quantised_kernel(
    x_ptr,  # [K]
    w_ptr,  # [N, K] int8 or [N, K / 2] uint8; twice the rows when GATE
    scale_ptr,  # [N] or [N, K / GROUP]
    y_ptr,  # [N]
    residual_ptr,  # [N], RESIDUAL only; may be y_ptr
    alpha_ptr,  # [K], NORM only
    N,
    K,
    eps,
    NORM: tl.constexpr,
    GATE: tl.constexpr,
    RESIDUAL: tl.constexpr,
    BITS: tl.constexpr,
    GROUP: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,  # bytes of a weight row at a time
    KP: tl.constexpr,  # K rounded up to a power of two
    STAGES: tl.constexpr,
    PDL: tl.constexpr,
):
    """One row: `y = [residual +] [gate of] weight · [RMSNorm of] x`."""
    PARTS: tl.constexpr = BK // GROUP
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    dtype = y_ptr.dtype.element_ty
    width = K * BITS // 8
    grid_wait(PDL)
    scale = 1.0
    if NORM:
        all_k = tl.arange(0, KP)
        whole = tl.load(x_ptr + all_k, mask=all_k < K, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(whole * whole, axis=0) / K + eps)
    if BITS == 8:
        acc = tl.zeros([BN, BK], tl.float32)
        acc2 = tl.zeros([BN, BK], tl.float32)
    else:
        acc = tl.zeros([BN, PARTS], tl.float32)
        acc2 = tl.zeros([BN, PARTS], tl.float32)
    for k0 in tl.range(0, width, BK, num_stages=STAGES):
        kk = k0 + k
        inside = kk < width
        held = (n < N)[:, None] & inside[None, :]
        x = _input(x_ptr, alpha_ptr, kk, inside, scale, NORM, dtype)
        w = tl.load(w_ptr + n.to(tl.int64)[:, None] * width + kk[None, :], mask=held, other=0)
        if GATE:
            w2 = tl.load(
                w_ptr + (n + N).to(tl.int64)[:, None] * width + kk[None, :], mask=held, other=0
            )
        if BITS == 8:
            acc += w.to(tl.float32) * x[None, :]
            if GATE:
                acc2 += w2.to(tl.float32) * x[None, :]
        else:
            # Bytes past a row's end are zero and so stand for −8, times an input that is zero.
            x_high = _input(x_ptr, alpha_ptr, kk + width, inside, scale, NORM, dtype)
            part = k0 // GROUP + tl.arange(0, PARTS)
            ok = (n < N)[:, None] & (part < width // GROUP)[None, :]
            at = n[:, None] * (K // GROUP) + part[None, :]
            half = width // GROUP
            low = (w & 15).to(tl.float32) - 8.0
            high = (w >> 4).to(tl.float32) - 8.0
            acc += _scaled_sums(low, x, scale_ptr, at, ok, BN, PARTS, GROUP)
            acc += _scaled_sums(high, x_high, scale_ptr, at + half, ok, BN, PARTS, GROUP)
            if GATE:
                at = (n + N)[:, None] * (K // GROUP) + part[None, :]
                low = (w2 & 15).to(tl.float32) - 8.0
                high = (w2 >> 4).to(tl.float32) - 8.0
                acc2 += _scaled_sums(low, x, scale_ptr, at, ok, BN, PARTS, GROUP)
                acc2 += _scaled_sums(high, x_high, scale_ptr, at + half, ok, BN, PARTS, GROUP)
    y = tl.sum(acc, axis=1)
    if BITS == 8:
        y = y * tl.load(scale_ptr + n, mask=n < N, other=0.0)
    if GATE:
        b = tl.sum(acc2, axis=1)
        if BITS == 8:
            b = b * tl.load(scale_ptr + n + N, mask=n < N, other=0.0)
        out = silu_gate(y, b, dtype)
    else:
        out = y.to(dtype)
    if RESIDUAL:
        r = tl.load(residual_ptr + n, mask=n < N, other=0.0)
        out = (r.to(tl.float32) + out.to(tl.float32)).to(dtype)
    tl.store(y_ptr + n, out, mask=n < N)


@triton.jit
def _widened_dot(
    acc,
    w,
    x_ptr,
    scale_ptr,
    m,
    k,
    n,
    inside,
    M,
    K,
    rows,
    x_stride,
    group,
    BITS: tl.constexpr,
    GROUP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The products of one tile of weights, added to `acc`; `n` are weight rows, of `rows`."""
    dtype = x_ptr.dtype.element_ty
    ok = (m < M)[:, None] & inside[None, :]
    x = tl.load(x_ptr + m[:, None] * x_stride + k[None, :], mask=ok, other=0.0)
    if BITS == 8:
        return tl.dot(x, w.to(dtype).T, acc, input_precision=PRECISION)
    width = K // 2
    x_high = tl.load(x_ptr + m[:, None] * x_stride + width + k[None, :], mask=ok, other=0.0)
    low = ((w & 15).to(tl.float32) - 8.0).to(dtype)
    high = ((w >> 4).to(tl.float32) - 8.0).to(dtype)
    at = scale_ptr + n * (K // GROUP) + group
    scale = tl.load(at, mask=n < rows, other=0.0).to(tl.float32)
    scale_high = tl.load(at + width // GROUP, mask=n < rows, other=0.0).to(tl.float32)
    acc += tl.dot(x, low.T, input_precision=PRECISION) * scale[None, :]
    return acc + tl.dot(x_high, high.T, input_precision=PRECISION) * scale_high[None, :]


@triton.jit
def linear_quantised_kernel(
    x_ptr,  # [M, K], row stride x_stride
    w_ptr,  # as in gemv_quantised_kernel
    scale_ptr,
    y_ptr,  # [M, N]
    M,
    N,
    K,
    x_stride,
    GATE: tl.constexpr,
    BITS: tl.constexpr,
    GROUP: tl.constexpr,
    MP: tl.constexpr,  # M rounded up to a power of two, 16 at least
    BN: tl.constexpr,
    BK: tl.constexpr,  # bytes of a weight row at a time; GROUP with 4 bits
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    """2 … 128 rows on the tensor cores."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.arange(0, MP)
    k = tl.arange(0, BK)
    width = K * BITS // 8
    grid_wait(PDL)
    acc = tl.zeros([MP, BN], tl.float32)
    acc2 = tl.zeros([MP, BN], tl.float32)
    for k0 in tl.range(0, width, BK, num_stages=STAGES):
        kk = k0 + k
        inside = kk < width
        held = (n < N)[:, None] & inside[None, :]
        group = k0 // GROUP
        w = tl.load(w_ptr + n.to(tl.int64)[:, None] * width + kk[None, :], mask=held, other=0)
        acc = _widened_dot(
            acc, w, x_ptr, scale_ptr, m, kk, n, inside, M, K, N, x_stride, group, BITS, GROUP,
            PRECISION,
        )  # fmt: skip
        if GATE:
            w2 = tl.load(
                w_ptr + (n + N).to(tl.int64)[:, None] * width + kk[None, :], mask=held, other=0
            )
            acc2 = _widened_dot(
                acc2, w2, x_ptr, scale_ptr, m, kk, n + N, inside, M, K, 2 * N, x_stride, group,
                BITS, GROUP, PRECISION,
            )  # fmt: skip
    if BITS == 8:
        acc = acc * tl.load(scale_ptr + n, mask=n < N, other=0.0)[None, :]
        if GATE:
            acc2 = acc2 * tl.load(scale_ptr + n + N, mask=n < N, other=0.0)[None, :]
    at = m[:, None] * N + n[None, :]
    ok = (m < M)[:, None] & (n < N)[None, :]
    out_dtype = y_ptr.dtype.element_ty
    if GATE:
        tl.store(y_ptr + at, silu_gate(acc, acc2, out_dtype), mask=ok)
    else:
        tl.store(y_ptr + at, acc.to(out_dtype), mask=ok)
