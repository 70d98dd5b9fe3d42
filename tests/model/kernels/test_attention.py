import math

import pytest
import torch

from rtc_agent.model.kernels.attention import ring_attention_kernel
from rtc_agent.model.layers import Rope, rotate

ROWS, HEADS, DIM, RING, SPLIT = 2, 2, 16, 20, 16
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Ring:
    """A ring under the kernel beside the whole history it stands for."""

    def __init__(self, int8: bool, starts: list[int], seed: int) -> None:
        self.noise = torch.Generator().manual_seed(seed)
        stored = torch.int8 if int8 else torch.float32
        shape = (ROWS, HEADS, RING)
        self.int8 = int8
        # Stale numbers in rows that hold nothing must never be read.
        self.keys = torch.full((*shape, DIM), 77, dtype=stored, device=DEVICE)
        self.values = self.keys.clone()
        self.scales = [torch.full(shape, 1e3, device=DEVICE) for _ in range(2)]
        self.position = torch.tensor(starts, device=DEVICE)
        splits = -(-RING // SPLIT)
        self.partial = torch.empty(ROWS, HEADS, splits, DIM, device=DEVICE)
        self.stats = torch.empty(ROWS, HEADS, splits, 2, device=DEVICE)
        self.arrived = torch.zeros(ROWS, HEADS, dtype=torch.int32, device=DEVICE)

    def step(self, qkv: torch.Tensor, dot: bool) -> torch.Tensor:
        cos, sin = Rope(DIM, 10000.0, DEVICE).angles(self.position)
        out = torch.full((ROWS, HEADS, DIM), math.nan, device=DEVICE)
        splits = self.partial.shape[2]
        ring_attention_kernel[(splits, HEADS, ROWS)](
            qkv,
            self.keys,
            self.values,
            *self.scales,
            self.position,
            cos,
            sin,
            out,
            self.partial,
            self.stats,
            self.arrived,
            RING,
            DIM**-0.5,
            H=HEADS,
            D=DIM,
            SPLIT=SPLIT,
            SPLITS=splits,
            SPLITS_P2=splits,
            BT=SPLIT,
            STAGES=1,
            DOT=dot,
            INT8=self.int8,
            WHOLE=False,
            AHEAD=0,
            PRECISION="tf32x3" if DEVICE.type == "cuda" else "ieee",
            PDL=False,
        )
        self.position += 1
        return out


def expected(history: list[tuple[torch.Tensor, torch.Tensor]], q: torch.Tensor) -> torch.Tensor:
    keys = torch.stack([k for k, _ in history[-RING:]], dim=1)
    values = torch.stack([v for _, v in history[-RING:]], dim=1)
    scores = (keys @ q[:, :, None])[..., 0] * DIM**-0.5
    return (scores.softmax(-1)[:, None] @ values)[:, 0]


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("dot", [False, True])
def test_rows_of_different_age_attend_to_their_own_last_positions(int8: bool, dot: bool) -> None:
    ring = Ring(int8, [0, 0], seed=1)
    history: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[], []]
    tolerance = 3e-2 if int8 else 1e-5
    for step in range(RING + 4):
        # The second row sits out some ticks: it computes, but its position stays.
        sits_out = step in (1, 6)
        qkv = torch.randn(ROWS, 3, HEADS, DIM, generator=ring.noise).to(DEVICE)
        cos, sin = Rope(DIM, 10000.0, DEVICE).angles(ring.position)
        q, k = (rotate(qkv[:, i], cos[:, None], sin[:, None]) for i in range(2))
        out = ring.step(qkv, dot)
        for row in range(ROWS):
            if row == 1 and sits_out:
                ring.position[1] -= 1
                continue
            history[row].append((k[row], qkv[row, 2]))
            want = expected(history[row], q[row])
            assert (out[row] - want).norm() <= tolerance * want.norm()
    assert not ring.arrived.any()


def test_a_row_is_the_same_beside_any_other() -> None:
    outs = []
    for other in (0.0, 50.0):
        ring = Ring(False, [0, 0], seed=2)
        steps = []
        for _ in range(RING + 2):
            qkv = torch.randn(ROWS, 3, HEADS, DIM, generator=ring.noise).to(DEVICE)
            qkv[1] *= other
            steps.append(ring.step(qkv, dot=True)[0].clone())
        outs.append(torch.stack(steps))
    assert torch.equal(*outs)
