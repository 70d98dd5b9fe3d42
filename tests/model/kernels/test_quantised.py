"""Products against narrow weights, beside the same weights made wide."""

import pytest
import torch
import torch.nn.functional as F

from rtc_agent.model.cuda.launch import Launch
from rtc_agent.model.cuda.linear import launch_gemv, product
from rtc_agent.model.layers import rms_norm
from rtc_agent.model.quantised import QuantisedWeight, narrowed

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HOW = Launch.on(DEVICE)
N, K = 40, 192


def weight(bits: int, rows: int) -> tuple[QuantisedWeight, torch.Tensor]:
    drawn = torch.randn(rows, K, generator=torch.Generator().manual_seed(bits)).to(DEVICE)
    held = narrowed(drawn, bits)
    assert isinstance(held, QuantisedWeight)
    return held, held.dense(torch.float32)


def rows(count: int, columns: int) -> torch.Tensor:
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(9)).to(DEVICE)


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("bits", [8, 4])
def test_one_row(bits: int, gate: bool) -> None:
    held, wide = weight(bits, 2 * N if gate else N)
    x, alpha, before = rows(1, K), rows(1, K)[0] + 3, rows(1, N)
    y = before.clone()
    launch_gemv(x, held, y, HOW, alpha=alpha, residual=y, gate=gate)
    wanted = F.linear(rms_norm(x, alpha), wide)
    if gate:
        a, b = wanted.chunk(2, dim=-1)
        wanted = F.silu(a) * b
    wanted = wanted + before
    assert (y - wanted).norm() <= 1e-5 * wanted.norm()


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("bits", [8, 4])
def test_several_rows(bits: int, gate: bool) -> None:
    held, wide = weight(bits, 2 * N if gate else N)
    x = rows(3, K)
    y = torch.full((3, N), torch.nan, device=DEVICE)
    product(held, 3, gate=gate).launch(x, y, HOW)
    wanted = F.linear(x, wide)
    if gate:
        a, b = wanted.chunk(2, dim=-1)
        wanted = F.silu(a) * b
    assert (y - wanted).norm() <= 1e-5 * wanted.norm()
