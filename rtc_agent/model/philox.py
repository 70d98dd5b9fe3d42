"""Counter-based random numbers (Philox 4x32-10) as plain integer tensor operations.

A draw is a function of (seed, counter) alone, so a call's draws depend neither on who else is in
the batch nor on what was drawn before. Salmon et al., "Parallel random numbers: as easy as 1, 2,
3", SC 2011.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def _wide_product(constant: int, x: Tensor) -> tuple[Tensor, Tensor]:
    # The product of two 32-bit numbers may wrap int64's sign; both halves are masked, so it is
    # only its bits that count.
    product = x * constant
    return (product >> 32) & _LOW, product & _LOW


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> Tensor:
    """Four 32-bit words for every counter.

    Args:
        counter, key: int64 tensors that broadcast together, each holding 32-bit words.

    Returns:
        int64 [..., 4], each 0 … 2³² − 1.
    """
    c0, c1, c2, c3 = torch.broadcast_tensors(*counter)
    k0, k1 = key
    for _ in range(_ROUNDS):
        high0, low0 = _wide_product(_MULTIPLIERS[0], c0)
        high1, low1 = _wide_product(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return torch.stack((c0, c1, c2, c3), dim=-1)


def uniform(words: Tensor) -> Tensor:
    """Words to float32 strictly inside 0 … 1, from their upper 23 bits."""
    return ((words >> 9).to(torch.float32) + 0.5) * 2.0**-23
