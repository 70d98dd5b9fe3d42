"""A prompt's queries, keys and values: rotated and put in place, in one launch a layer."""

from __future__ import annotations

import triton
import triton.language as tl

from rtc_agent.model.kernels.attention import rotate


@triton.jit(do_not_specialize=["first", "count", "length"])
def spread_kernel(
    qkv_ptr,  # [count, 3, H, D]
    cos_ptr,  # [count, D/2] float32
    sin_ptr,
    q_ptr,  # [H, count, D]
    k_ptr,  # [H, length, D]
    v_ptr,
    first,  # position of the first of them
    count,
    length,
    H: tl.constexpr,
    D: tl.constexpr,
):
    t = tl.program_id(0)
    head = tl.program_id(1)
    d = tl.arange(0, D)
    dtype = q_ptr.dtype.element_ty
    base = qkv_ptr + (t * 3 * H + head) * D
    cos, sin = cos_ptr + t * (D // 2), sin_ptr + t * (D // 2)
    tl.store(q_ptr + (head * count + t) * D + d, rotate(base, cos, sin, D, dtype))
    at = (head.to(tl.int64) * length + first + t) * D + d
    tl.store(k_ptr + at, rotate(base + H * D, cos, sin, D, dtype))
    tl.store(v_ptr + at, tl.load(base + 2 * H * D + d))
