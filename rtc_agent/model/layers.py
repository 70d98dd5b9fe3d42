"""The arithmetic that more than one part of the model shares."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.quantised import Weight, linear

RMS_EPS = 1e-8


def rms_norm(x: Tensor, alpha: Tensor) -> Tensor:
    """RMSNorm over the last dimension, in float32, rounded once to the input's dtype."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + RMS_EPS)
    return (wide * (alpha.float() * scale)).to(x.dtype)


def gated_ffn(x: Tensor, linear_in: Weight, linear_out: Weight) -> Tensor:
    """`linear_out(silu(a) · b)`, where a and b are the halves of `linear_in(x)`."""
    a, b = linear(x, linear_in).chunk(2, dim=-1)
    return linear(F.silu(a) * b, linear_out)


class Rope:
    """Rotary embedding of interleaved pairs at absolute positions, in float32."""

    def __init__(self, head_dim: int, max_period: float, device: torch.device) -> None:
        pairs = torch.arange(head_dim // 2, dtype=torch.float32, device=device)
        self.frequencies = torch.exp(pairs * (-math.log(max_period) * 2 / head_dim))

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, [..., head_dim / 2], of integer `positions` [...]."""
        turned = positions.to(torch.float32)[..., None] * self.frequencies
        return turned.cos(), turned.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the pairs of `x` [..., head_dim]; `cos` and `sin` broadcast over all but the last."""
    pairs = x.float().unflatten(-1, (-1, 2))
    a, b = pairs[..., 0], pairs[..., 1]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).to(x.dtype)


def attend(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention.

    Args:
        q: [B, H, T, D]
        keys, values: [B, H, R, D]
        mask: broadcastable to [B, H, T, R], true where a query may look; None: everywhere.

    Returns:
        [B, T, H · D]
    """
    out = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
    return out.transpose(1, 2).flatten(2)
