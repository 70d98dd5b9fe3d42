"""The codec's split residual quantiser: nearest vectors on the way in, their sum on the way out.

Encoding is eight dependent searches. Each is one launch over slices of a codebook: it first settles
the search before it (largest score over the slices, the lowest index of equals), takes that vector
off the residual, and then scores its own slice.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.device import grid_wait

_NONE = tl.constexpr(2**30)


@triton.jit
def settle(score_ptr, index_ptr, row, ok, rows, TILES: tl.constexpr):
    """Best index of every row over the slices' bests."""
    tile = tl.arange(0, TILES)
    at = tile[:, None] * rows + row[None, :]
    score = tl.load(score_ptr + at, mask=ok[None, :], other=0.0)
    index = tl.load(index_ptr + at, mask=ok[None, :], other=0)
    best = tl.max(score, axis=0)
    found = tl.min(tl.where(score == best[None, :], index, _NONE), axis=0)
    # Scores that are no numbers equal nothing; any index will do for a row that has failed.
    return tl.where(found == _NONE, 0, found)


@triton.jit
def nearest_kernel(
    residual_ptr,  # [rows, ·, D]
    next_ptr,  # [rows, D]: the residual after the search before, SETTLE only
    book_ptr,  # [·, bins, D]: this search's codebook first
    norm_ptr,  # [·, bins]: half the squared norms
    previous_ptr,  # [bins, D]: the codebook before, SETTLE only
    score_in_ptr,  # [TILES, rows]
    index_in_ptr,
    score_ptr,  # [·, TILES, rows]
    index_ptr,
    codes_ptr,  # [rows, CODES] int64, at the code that is settled
    rows,
    residual_row,
    bins,
    SETTLE: tl.constexpr,
    CODES: tl.constexpr,
    TILES: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,  # D rounded up to a power of two
    BM: tl.constexpr,
    BN: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    tile = tl.program_id(0)
    row = tl.program_id(1) * BM + tl.arange(0, BM)
    half = tl.program_id(2)
    n = tile * BN + tl.arange(0, BN)
    d = tl.arange(0, DP)
    inside = (d < D)[None, :]
    ok = row < rows
    book = tl.load(
        book_ptr + (half * bins + n)[:, None] * D + d[None, :],
        mask=(n < bins)[:, None] & inside,
        other=0.0,
    )
    norm = tl.load(norm_ptr + half * bins + n, mask=n < bins, other=float("inf"))
    grid_wait(PDL)
    at = row[:, None] * residual_row + half * D + d[None, :]
    r = tl.load(residual_ptr + at, mask=ok[:, None] & inside, other=0.0)
    if SETTLE:
        found = settle(score_in_ptr, index_in_ptr, row, ok, rows, TILES)
        r -= tl.load(previous_ptr + found[:, None] * D + d[None, :], mask=inside, other=0.0)
        if tile == 0:
            tl.store(next_ptr + row[:, None] * D + d[None, :], r, mask=ok[:, None] & inside)
            tl.store(codes_ptr + row * CODES, found.to(tl.int64), mask=ok)
    score = tl.dot(r, book.T, input_precision=PRECISION) - norm[None, :]
    best = tl.max(score, axis=1)
    index = tl.min(tl.where(score == best[:, None], n[None, :], _NONE), axis=1)
    to = (half * TILES + tile) * rows + row
    tl.store(score_ptr + to, best, mask=ok)
    tl.store(index_ptr + to, index, mask=ok)


@triton.jit
def nearest_few_kernel(
    residual_ptr,  # as in nearest_kernel
    next_ptr,
    book_ptr,
    norm_ptr,
    previous_ptr,
    score_in_ptr,
    index_in_ptr,
    score_ptr,
    index_ptr,
    codes_ptr,
    rows,
    residual_row,
    bins,
    SETTLE: tl.constexpr,
    CODES: tl.constexpr,
    TILES: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    BN: tl.constexpr,
    PDL: tl.constexpr,
):
    """As `nearest_kernel`, one row a block on the plain units, the slice loaded beforehand."""
    tile = tl.program_id(0)
    row = tl.program_id(1)
    half = tl.program_id(2)
    n = tile * BN + tl.arange(0, BN)
    d = tl.arange(0, DP)
    inside = d < D
    book = tl.load(
        book_ptr + (half * bins + n)[:, None] * D + d[None, :],
        mask=(n < bins)[:, None] & inside[None, :],
        other=0.0,
    )
    norm = tl.load(norm_ptr + half * bins + n, mask=n < bins, other=float("inf"))
    grid_wait(PDL)
    r = tl.load(residual_ptr + row * residual_row + half * D + d, mask=inside, other=0.0)
    if SETTLE:
        one = row + tl.arange(0, 1)
        found = settle(score_in_ptr, index_in_ptr, one, one < rows, rows, TILES)
        found = tl.sum(found, axis=0)
        r -= tl.load(previous_ptr + found * D + d, mask=inside, other=0.0)
        if tile == 0:
            tl.store(next_ptr + row * D + d, r, mask=inside)
            tl.store(codes_ptr + row * CODES, found.to(tl.int64))
    score = tl.sum(book * r[None, :], axis=1) - norm
    best = tl.max(score, axis=0)
    index = tl.min(tl.where(score == best, n, _NONE), axis=0)
    to = (half * TILES + tile) * rows + row
    tl.store(score_ptr + to, best)
    tl.store(index_ptr + to, index)


@triton.jit
def settle_kernel(
    latent_ptr,  # [rows, 2·D]: the projected latent, for whether it is finite
    score_first_ptr,
    index_first_ptr,
    score_last_ptr,
    index_last_ptr,
    codes_ptr,  # [rows, CODES] int64: the first and the last are settled here
    finite_ptr,  # [rows] int32
    rows,
    CODES: tl.constexpr,
    TILES: tl.constexpr,
    D2: tl.constexpr,
    DP: tl.constexpr,  # D2 rounded up to a power of two
    PDL: tl.constexpr,
):
    row = tl.program_id(0) + tl.arange(0, 1)
    d = tl.arange(0, DP)
    grid_wait(PDL)
    first = settle(score_first_ptr, index_first_ptr, row, row < rows, rows, TILES)
    last = settle(score_last_ptr, index_last_ptr, row, row < rows, rows, TILES)
    tl.store(codes_ptr + row * CODES, first.to(tl.int64))
    tl.store(codes_ptr + row * CODES + CODES - 1, last.to(tl.int64))
    latent = tl.load(latent_ptr + tl.program_id(0) * D2 + d, mask=d < D2, other=0.0)
    finite = tl.min((tl.abs(latent) < float("inf")).to(tl.int32), axis=0)
    tl.store(finite_ptr + tl.program_id(0), finite)


@triton.jit
def dequantize_kernel(
    codes_ptr,  # [rows, CODES] int64
    speaking_ptr,  # [rows]: other rows decode code 0
    table_ptr,  # [CODES, bins, D] float32: codebook vectors, already projected
    latent_ptr,  # [rows, 2, D]: the frame before, this frame
    up_ptr,  # [4, D]: the depthwise transposed kernel of stride 2
    out_ptr,  # [rows, 2, D]
    bins,
    CODES: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,  # D rounded up to a power of two
    PDL: tl.constexpr,
):
    """Codes to the decoder transformer's input: sum of vectors, then upsampling by two."""
    row = tl.program_id(0)
    d = tl.arange(0, DP)
    ok = d < D
    grid_wait(PDL)
    speaking = tl.load(speaking_ptr + row).to(tl.int64)
    x = tl.zeros([DP], tl.float32)
    for c in tl.static_range(CODES):
        code = tl.load(codes_ptr + row * CODES + c) * speaking
        x += tl.load(table_ptr + (c * bins + code) * D + d, mask=ok, other=0.0)
    before = tl.load(latent_ptr + row * 2 * D + d, mask=ok, other=0.0)
    tl.store(latent_ptr + row * 2 * D + D + d, x, mask=ok)
    for j in tl.static_range(2):
        now = tl.load(up_ptr + j * D + d, mask=ok, other=0.0)
        later = tl.load(up_ptr + (2 + j) * D + d, mask=ok, other=0.0)
        tl.store(out_ptr + (row * 2 + j) * D + d, x * now + before * later, mask=ok)
