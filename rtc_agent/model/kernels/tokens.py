"""Token bookkeeping of a tick: columns to inputs, logits to tokens, tokens to the next column."""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.device import grid_wait

_NONE = tl.constexpr(2**30)


@triton.jit
def embed_kernel(
    column_ptr,  # [rows, 1 + AUDIO] int64
    user_ptr,  # [rows, CODES] int64
    position_ptr,  # [rows] int64
    audio_ptr,  # [AUDIO, card + 2, D]; the last row is zero, for id −1
    text_ptr,  # [text_card + 2, D]
    frequency_ptr,  # [PAIRS] float32
    h_ptr,  # [rows, D]
    cos_ptr,  # [rows, PAIRS] float32
    sin_ptr,
    card,
    text_card,
    D,
    AUDIO: tl.constexpr,
    CODES: tl.constexpr,
    PAIRS: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    """Sum of a column's embeddings, audio first and text last, rounded after every addition."""
    row = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = d < D
    dtype = h_ptr.dtype.element_ty
    grid_wait(PDL)
    position = tl.load(position_ptr + row)
    columns = column_ptr + row * (1 + AUDIO)
    total = tl.zeros([BLOCK], tl.float32)
    for k in tl.static_range(AUDIO):
        token = tl.load(columns + 1 + k)
        if k == AUDIO - CODES:
            # The caller's codebook 0 has no delay; position 0 is all start-of-stream.
            heard = tl.load(user_ptr + row * CODES)
            token = tl.where(position == 0, card, heard)
        token = tl.where(token < 0, card + 1, token)
        at = (k * (card + 2) + token) * D + d
        value = tl.load(audio_ptr + at, mask=ok, other=0.0).to(tl.float32)
        total = (total + value).to(dtype).to(tl.float32)
    token = tl.load(columns)
    token = tl.where(token < 0, text_card + 1, token)
    total += tl.load(text_ptr + token * D + d, mask=ok, other=0.0).to(tl.float32)
    tl.store(h_ptr + row * D + d, total.to(dtype), mask=ok)
    if tl.program_id(1) == 0:
        pair = tl.arange(0, PAIRS)
        angle = position.to(tl.float32) * tl.load(frequency_ptr + pair)
        tl.store(cos_ptr + row * PAIRS + pair, tl.cos(angle))
        tl.store(sin_ptr + row * PAIRS + pair, tl.sin(angle))


@triton.jit
def ordered(x, BITS: tl.constexpr):
    """Float32 to unsigned integers of the same order; 16 bits suffice for bfloat16 values."""
    bits = x.to(tl.uint32, bitcast=True)
    key = tl.where(bits >> 31 != 0, bits ^ 0xFFFFFFFF, bits | 0x80000000)
    return (key >> (32 - BITS)).to(tl.uint32)


@triton.jit
def kth_largest(key, wanted, BITS: tl.constexpr):
    """The largest key that at least `wanted` keys reach, found two bits at a time."""
    threshold = tl.zeros([], tl.uint32)
    for i in tl.static_range(BITS // 2):
        one = threshold | (1 << (BITS - 2 - 2 * i))
        two = threshold | (2 << (BITS - 2 - 2 * i))
        three = threshold | (3 << (BITS - 2 - 2 * i))
        # Three counts of at most 2^20 in one sum.
        packed = (
            (key >= one).to(tl.int64)
            | ((key >= two).to(tl.int64) << 20)
            | ((key >= three).to(tl.int64) << 40)
        )
        count = tl.sum(packed, axis=0)
        threshold = tl.where(
            (count >> 40) >= wanted,
            three,
            tl.where(
                ((count >> 20) & 0xFFFFF) >= wanted,
                two,
                tl.where((count & 0xFFFFF) >= wanted, one, threshold),
            ),
        )
    return threshold


@triton.jit
def threshold_kernel(
    logits_ptr,  # [rows, N]
    top_k_ptr,  # [rows, 2] int64: text, audio
    threshold_ptr,  # [rows] int64: the key that candidates reach
    finite_ptr,  # [rows] int32: 1 where every logit is a number
    N,
    KIND: tl.constexpr,
    NP: tl.constexpr,  # N rounded up to a power of two
    BITS: tl.constexpr,
    PDL: tl.constexpr,
):
    """What `sample_kernel` needs to know of a whole row before it can take it in pieces."""
    row = tl.program_id(0)
    n = tl.arange(0, NP)
    wanted = tl.load(top_k_ptr + row * 2 + KIND)
    grid_wait(PDL)
    logits = tl.load(logits_ptr + row * N + n, mask=n < N, other=-float("inf")).to(tl.float32)
    finite = tl.min(tl.where(n < N, tl.abs(logits) < float("inf"), True).to(tl.int32), axis=0)
    tl.store(finite_ptr + row, finite)
    threshold = kth_largest(ordered(logits, BITS), wanted, BITS)
    tl.store(threshold_ptr + row, threshold.to(tl.int64))


@triton.jit
def sample_kernel(
    logits_ptr,  # [rows, N]
    seed_ptr,  # [rows, 2] int64: low and high 32 bits
    greedy_ptr,  # [rows, 2] bool: text, audio
    temperature_ptr,  # [rows, 2] float32
    top_k_ptr,  # [rows, 2] int64
    position_ptr,  # [rows] int64
    token_ptr,  # [rows, ·] int64, at the token to choose
    finite_ptr,  # [rows] int32: cleared where a logit is no number
    input_ptr,  # [rows, ·, D], at the next step's input
    table_ptr,  # [·, D]: what the chosen token adds to it
    h_ptr,  # [rows, D]: their sum
    alpha_ptr,  # [D]
    x_ptr,  # [rows, D]: its RMSNorm
    threshold_ptr,  # [rows] int64, CHUNKS > 1 only, as are the next three
    score_ptr,  # [rows, CHUNKS] float32
    index_ptr,  # [rows, CHUNKS] int32
    arrived_ptr,  # [rows] int32, zero between launches
    N,
    token_row,
    input_row,
    D,
    eps,
    STREAM: tl.constexpr,  # which draw of the position
    KIND: tl.constexpr,  # 0 text, 1 audio
    NEXT: tl.constexpr,  # there is a next step
    NORM: tl.constexpr,  # whose input is wanted normalised too
    CHUNKS: tl.constexpr,  # blocks a row; more than one need `threshold_kernel` before
    CHUNKS_P2: tl.constexpr,
    NP: tl.constexpr,  # logits a block, a power of two
    BITS: tl.constexpr,
    BLOCK: tl.constexpr,  # D rounded up to a power of two
    PDL: tl.constexpr,
):
    """Choose one token a row, and make the depformer step's input that follows from it.

    Candidates are the `top_k` largest logits and whatever equals the least of them. The draw is the
    candidate of the largest logit / temperature + Gumbel noise, the noise being a function of
    (seed, position, stream, token).
    """
    chunk = tl.program_id(0)
    row = tl.program_id(1)
    n = chunk * NP + tl.arange(0, NP)
    # A session's settings do not change within a tick; reading them early hides their latency.
    greedy = tl.load(greedy_ptr + row * 2 + KIND)
    wanted = tl.load(top_k_ptr + row * 2 + KIND)
    temperature = tl.load(temperature_ptr + row * 2 + KIND)
    low = tl.load(seed_ptr + row * 2).to(tl.uint64)
    high = tl.load(seed_ptr + row * 2 + 1).to(tl.uint64)
    position = tl.load(position_ptr + row)
    grid_wait(PDL)
    logits = tl.load(logits_ptr + row * N + n, mask=n < N, other=-float("inf")).to(tl.float32)
    if NEXT:
        d = tl.arange(0, BLOCK)
        ok = d < D
        given = tl.load(input_ptr + row * input_row + d, mask=ok, other=0.0).to(tl.float32)
    if CHUNKS == 1:
        numbers = tl.where(n < N, tl.abs(logits) < float("inf"), True).to(tl.int32)
        tl.store(finite_ptr + row, tl.min(numbers, axis=0) & tl.load(finite_ptr + row))
    score = logits
    if not greedy:
        key = ordered(logits, BITS)
        if CHUNKS == 1:
            threshold = kth_largest(key, wanted, BITS)
        else:
            threshold = tl.load(threshold_ptr + row).to(tl.uint32)
        zero = tl.zeros([NP], tl.uint32)
        word, _, _, _ = tl.philox(
            low | (high << 32),
            n.to(tl.uint32),
            zero + STREAM,
            zero + position.to(tl.uint32),
            zero + (position >> 32).to(tl.uint32),
        )
        uniform = ((word >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07
        noise = -tl.log(-tl.log(uniform))
        score = logits / temperature + noise
        score = tl.where(key >= threshold, score, -float("inf"))
    best = tl.max(score, axis=0)
    token = tl.min(tl.where((score == best) & (n < N), n, _NONE), axis=0)
    last = True
    if CHUNKS > 1:
        tl.store(score_ptr + row * CHUNKS + chunk, best)
        tl.store(index_ptr + row * CHUNKS + chunk, token)
        tl.debug_barrier()
        last = tl.atomic_add(arrived_ptr + row, 1, sem="acq_rel") == CHUNKS - 1
        if last:
            tl.store(arrived_ptr + row, 0)
            c = tl.arange(0, CHUNKS_P2)
            there = c < CHUNKS
            bests = tl.load(score_ptr + row * CHUNKS + c, mask=there, other=-float("inf"))
            tokens = tl.load(index_ptr + row * CHUNKS + c, mask=there, other=_NONE)
            token = tl.min(tl.where(bests == tl.max(bests, axis=0), tokens, _NONE), axis=0)
    if last:
        token = tl.where(token == _NONE, 0, token)
        tl.store(token_ptr + row * token_row, token.to(tl.int64))
        if NEXT:
            dtype = h_ptr.dtype.element_ty
            at = token.to(tl.int64) * D + d
            h = given + tl.load(table_ptr + at, mask=ok, other=0.0).to(tl.float32)
            h = h.to(dtype)
            tl.store(h_ptr + row * D + d, h, mask=ok)
            if NORM:
                wide = h.to(tl.float32)
                scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / D + eps)
                alpha = tl.load(alpha_ptr + d, mask=ok, other=0.0).to(tl.float32)
                tl.store(x_ptr + row * D + d, (wide * (alpha * scale)).to(dtype), mask=ok)


@triton.jit
def advance_kernel(
    column_ptr,  # [rows, 1 + 2 · CODES] int64
    position_ptr,  # [rows] int64
    live_ptr,  # [rows]
    tokens_ptr,  # [rows, 1 + CODES] int64: text and codes just chosen
    user_ptr,  # [rows, CODES] int64
    sos_ptr,  # [1 + 2 · CODES] int64
    delay_ptr,  # [1 + 2 · CODES] int64
    text_ptr,  # [rows] int64: text of the frame that is complete now
    codes_ptr,  # [rows, CODES] int64: its codes
    speaking_ptr,  # [rows] bool: whether there is such a frame
    CODES: tl.constexpr,
    BLOCK: tl.constexpr,  # 1 + 2 · CODES rounded up to a power of two
    PDL: tl.constexpr,
):
    """Give out the frame that position p completed and write column p + 1, in live rows."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    ok = i < 1 + 2 * CODES
    grid_wait(PDL)
    live = tl.load(live_ptr + row)
    position = tl.load(position_ptr + row)
    at = column_ptr + row * (1 + 2 * CODES) + i
    column = tl.load(at, mask=ok, other=0)
    said = tl.load(tokens_ptr + row * (1 + CODES) + i, mask=i < 1 + CODES, other=0)
    heard = tl.load(user_ptr + row * CODES + i - 1 - CODES, mask=ok & (i > CODES), other=0)
    coming = tl.where(i <= CODES, said, heard)
    lost = (position == 0) & (tl.load(delay_ptr + i, mask=ok, other=0) > 0)
    coming = tl.where(lost, tl.load(sos_ptr + i, mask=ok, other=0), coming)
    tl.store(text_ptr + row + 0 * i, column, mask=i == 0)
    frame = tl.where(i == 1, column, said)
    tl.store(codes_ptr + row * CODES + i - 1, frame, mask=(i > 0) & (i <= CODES))
    tl.store(speaking_ptr + row, live & (position > 0))
    if live:
        tl.store(at, coming, mask=ok)
        tl.store(position_ptr + row, position + 1)


@triton.jit
def finish_kernel(
    pcm_ptr,  # [rows, S] float32
    speaking_ptr,  # [rows]
    heard_ptr,  # [rows] int32
    thought_ptr,  # [rows] int32
    out_ptr,  # [rows, S] float32: zeros in rows that are not speaking
    healthy_ptr,  # [rows] bool
    S,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    """Gather a tick's result, with whether everything computed for a row was finite."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    grid_wait(PDL)
    pcm = tl.load(pcm_ptr + row * S + i, mask=i < S, other=0.0)
    finite = tl.min((tl.abs(pcm) < float("inf")).to(tl.int32), axis=0)
    finite = finite & tl.load(heard_ptr + row) & tl.load(thought_ptr + row)
    tl.store(healthy_ptr + row, finite != 0)
    speaking = tl.load(speaking_ptr + row)
    tl.store(out_ptr + row * S + i, tl.where(speaking, pcm, 0.0), mask=i < S)
