"""The codec's products: streaming convolutions and linears, each one launch.

Channels are last and a layer's past inputs lie right before its new ones, so the patch that an
output sees is one contiguous run of numbers and a convolution is a matrix product whose rows
overlap. A transposed convolution of kernel 2·s and stride s is one too: its input and the one
before it give s outputs. What follows a product (bias, residual, activation, the hand-over to the
next layer's input buffer) happens in the same launch.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.device import grid_wait

PLAIN = tl.constexpr(0)
ELU = tl.constexpr(1)
GELU = tl.constexpr(2)


@triton.jit
def activate(y, ACT: tl.constexpr):
    """ELU or exact GELU, float32."""
    if ACT == 1:
        return tl.where(y > 0, y, tl.exp(y) - 1.0)
    if ACT == 2:
        return 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    return y


@triton.jit
def conv_kernel(
    x_ptr,
    w_ptr,  # [N, K]
    bias_ptr,  # [N]
    skip_ptr,
    raw_ptr,
    act_ptr,
    partial_ptr,  # [SPLIT_K, M, N], SPLIT_K > 1 only
    arrived_ptr,  # [tiles] int32, zero between launches
    position_ptr,  # [rows] int64, REPLICATE only
    M,  # rows · T
    N,
    K,
    T,  # outputs a row
    x_row,  # elements from row to row
    x_step,  # elements from output to output
    skip_row,
    raw_row,
    act_row,
    past,  # elements before a row's first new input, REPLICATE only
    channels,
    BIAS: tl.constexpr,
    SKIP: tl.constexpr,
    RAW: tl.constexpr,  # store the sum
    ACT: tl.constexpr,  # store its activation too
    REPLICATE: tl.constexpr,  # a new row's past is its first input
    SPLIT_K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    split = tl.program_id(2)
    k = tl.arange(0, BK)
    row = m // T
    t = m % T
    x_base = x_ptr + row * x_row + t * x_step
    w_base = w_ptr + n.to(tl.int64) * K
    span = tl.cdiv(tl.cdiv(K, BK), SPLIT_K) * BK
    start = split * span
    stop = tl.minimum(start + span, K)
    grid_wait(PDL)
    if REPLICATE:
        fresh = tl.load(position_ptr + row, mask=m < M, other=1) == 0
    acc = tl.zeros([BM, BN], tl.float32)
    for k0 in tl.range(start, stop, BK, num_stages=STAGES):
        kk = k0 + k
        if REPLICATE:
            before = fresh[:, None] & (kk < past)[None, :]
            at = tl.where(before, (past + kk % channels)[None, :], kk[None, :])
        else:
            at = kk[None, :]
        x = tl.load(x_base[:, None] + at, mask=(m < M)[:, None] & (kk < stop)[None, :], other=0.0)
        w = tl.load(
            w_base[:, None] + kk[None, :], mask=(n < N)[:, None] & (kk < stop)[None, :], other=0.0
        )
        acc = tl.dot(x, w.T, acc, input_precision=PRECISION)
    ok = (m < M)[:, None] & (n < N)[None, :]
    last = True
    if SPLIT_K > 1:
        own = m[:, None] * N + n[None, :]
        tl.store(partial_ptr + split * M * N + own, acc, mask=ok)
        tl.debug_barrier()
        tile = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        last = tl.atomic_add(arrived_ptr + tile, 1, sem="acq_rel") == SPLIT_K - 1
        if last:
            tl.store(arrived_ptr + tile, 0)
            acc = tl.zeros([BM, BN], tl.float32)
            for s in tl.static_range(SPLIT_K):
                acc += tl.load(partial_ptr + s * M * N + own, mask=ok, other=0.0)
    if last:
        if BIAS:
            acc += tl.load(bias_ptr + n, mask=n < N, other=0.0)[None, :]
        to = t[:, None] * N + n[None, :]
        if SKIP:
            acc += tl.load(skip_ptr + row[:, None] * skip_row + to, mask=ok, other=0.0)
        if RAW:
            tl.store(raw_ptr + row[:, None] * raw_row + to, acc, mask=ok)
        if ACT:
            tl.store(act_ptr + row[:, None] * act_row + to, activate(acc, ACT), mask=ok)


@triton.jit
def few_rows_kernel(
    x_ptr,  # [rows, T, K]
    w_ptr,  # [N, K]
    gamma_ptr,  # [K], NORM only: LayerNorm over each x
    beta_ptr,
    skip_ptr,
    out_ptr,
    N,
    K,
    x_row,
    skip_row,  # elements from row to row; N from output to output
    out_row,
    NORM: tl.constexpr,
    SKIP: tl.constexpr,
    ACT: tl.constexpr,
    T: tl.constexpr,
    KP: tl.constexpr,  # K rounded up to a power of two
    BN: tl.constexpr,
    PDL: tl.constexpr,
):
    """A linear for few rows: on the plain units, its weights loaded before the inputs are ready."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    row = tl.program_id(1)
    k = tl.arange(0, KP)
    inside = k < K
    w = tl.load(
        w_ptr + n[:, None] * K + k[None, :], mask=(n < N)[:, None] & inside[None, :], other=0.0
    )
    if NORM:
        gamma = tl.load(gamma_ptr + k, mask=inside, other=0.0)
        beta = tl.load(beta_ptr + k, mask=inside, other=0.0)
    grid_wait(PDL)
    for t in tl.static_range(T):
        x = tl.load(x_ptr + row * x_row + t * K + k, mask=inside, other=0.0)
        if NORM:
            mean = tl.sum(x, axis=0) / K
            x = tl.where(inside, x - mean, 0.0)
            scale = tl.rsqrt(tl.sum(x * x, axis=0) / K + 1e-5)
            x = x * scale * gamma + beta
        y = tl.sum(w * x[None, :], axis=1)
        to = t * N + n
        if SKIP:
            y += tl.load(skip_ptr + row * skip_row + to, mask=n < N, other=0.0)
        tl.store(out_ptr + row * out_row + to, activate(y, ACT), mask=n < N)


@triton.jit
def layer_norm_kernel(
    x_ptr,  # [rows, D]
    gamma_ptr,  # [D]
    beta_ptr,
    y_ptr,  # [rows, D]
    D,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    ok = d < D
    gamma = tl.load(gamma_ptr + d, mask=ok, other=0.0)
    beta = tl.load(beta_ptr + d, mask=ok, other=0.0)
    grid_wait(PDL)
    x = tl.load(x_ptr + row * D + d, mask=ok, other=0.0)
    mean = tl.sum(x, axis=0) / D
    x = tl.where(ok, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / D + 1e-5)
    tl.store(y_ptr + row * D + d, x * scale * gamma + beta, mask=ok)


@triton.jit
def commit_kernel(
    arena_ptr,  # float32, every layer's input buffer
    table_ptr,  # [layers, 4] int64: where, elements a row, how far, how many
    live_ptr,  # [rows]
    position_ptr,  # [rows] int64: frames run
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    """End a frame: in live rows the newest inputs of every layer become its past."""
    layer = tl.program_id(0)
    row = tl.program_id(1)
    i = tl.arange(0, BLOCK)
    base = tl.load(table_ptr + layer * 4)
    stride = tl.load(table_ptr + layer * 4 + 1)
    shift = tl.load(table_ptr + layer * 4 + 2)
    size = tl.load(table_ptr + layer * 4 + 3)
    grid_wait(PDL)
    if tl.load(live_ptr + row):
        at = arena_ptr + base + row * stride + i
        kept = tl.load(at + shift, mask=i < size, other=0.0)
        # Past and new inputs overlap where a layer keeps more than it takes.
        tl.debug_barrier()
        tl.store(at, kept, mask=i < size)
        if layer == 0:
            tl.store(position_ptr + row, tl.load(position_ptr + row) + 1)
