"""The streaming codec: rows of their own, state only where it is due."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rtc_agent.model.mimi import MimiDecoder, MimiEncoder
from tests.golden import golden_mimi, golden_spec, replay

torch.set_num_threads(1)

SPEC = golden_spec("mimi_a").mimi
FRAMES = 16


@pytest.fixture(scope="module")
def pcm() -> Tensor:
    """[2, frames, 1920]"""
    return replay("mimi_a")["pcm_i16"][:, 0].float().div(32768).view(2, -1, 1920)


@pytest.fixture(scope="module")
def codes() -> Tensor:
    """[2, frames, 8]"""
    return replay("mimi_a")["codes"].long().permute(0, 2, 1)


def _live(*live: bool) -> Tensor:
    return torch.tensor(live)


def test_rows_that_sit_out_pick_up_where_they_were(pcm: Tensor, codes: Tensor) -> None:
    encoder = MimiEncoder(SPEC, golden_mimi(), 3)
    decoder = MimiDecoder(SPEC, golden_mimi(), 3)
    at = [0, 0, 0]
    steps = [_live(True, i % 2 == 0, i % 3 == 0) for i in range(3 * FRAMES)]
    heard: list[list[Tensor]] = [[], [], []]
    said: list[list[Tensor]] = [[], [], []]
    for live in steps:
        frame = torch.full((3, 1920), 9.0)
        code = torch.zeros((3, 8), dtype=torch.int64)
        for row in live.nonzero()[:, 0].tolist():
            frame[row], code[row] = pcm[row % 2, at[row]], codes[row % 2, at[row]]
        out, finite = encoder.encode(frame, live)
        sound = decoder.decode(code, live)
        assert finite.all()
        for row in live.nonzero()[:, 0].tolist():
            heard[row].append(out[row])
            said[row].append(sound[row])
            at[row] += 1
    assert encoder.state.position.tolist() == at == [48, 24, 16]
    decoded = replay("mimi_a")["decoded_f32"][:, 0]
    for row in range(3):
        assert torch.equal(torch.stack(heard[row]), codes[row % 2, : at[row]])
        sound = torch.cat(said[row])
        torch.testing.assert_close(sound, decoded[row % 2, : len(sound)], atol=1e-5, rtol=0)


def test_a_reset_row_is_as_new_to_the_bit(pcm: Tensor, codes: Tensor) -> None:
    encoder = MimiEncoder(SPEC, golden_mimi(), 2)
    decoder = MimiDecoder(SPEC, golden_mimi(), 2)
    both = _live(True, True)
    first = [decoder.decode(codes[:, i], both) for i in range(FRAMES)]
    for i in range(FRAMES):
        encoder.encode(pcm[:, i], both)
    encoder.encode(torch.full((2, 1920), float("nan")), _live(False, True))
    encoder.state.reset(1)
    decoder.state.reset(1)
    for i in range(FRAMES):
        _, finite = encoder.encode(pcm[:, FRAMES + i], _live(False, True))
        assert finite[1]
        again = decoder.decode(codes[:, i], _live(False, True))
        assert torch.equal(again[1], first[i][1])
    encoder.state.reset(1)
    for i in range(FRAMES):
        # Row 0 sat out all of that and goes on with its seventeenth frame.
        out, _ = encoder.encode(torch.stack((pcm[0, FRAMES + i], pcm[1, i])), both)
        assert torch.equal(out, torch.stack((codes[0, FRAMES + i], codes[1, i])))


@pytest.mark.parametrize("row", [0, 3, 7])
def test_bits_do_not_depend_on_the_row(pcm: Tensor, row: int) -> None:
    here, there = (MimiEncoder(SPEC, golden_mimi(), 8) for _ in range(2))
    speak_here, speak_there = (MimiDecoder(SPEC, golden_mimi(), 8) for _ in range(2))
    live = torch.ones(8, dtype=torch.bool)
    for i in range(12):
        frame = torch.randn((8, 1920), generator=torch.Generator().manual_seed(i))
        frame[5] = pcm[0, i]
        other = frame.roll(1, 0)
        other[row] = pcm[0, i]
        code, _ = here.encode(frame, live)
        moved, _ = there.encode(other, live)
        assert torch.equal(code[5], moved[row])
        assert torch.equal(speak_here.decode(code, live)[5], speak_there.decode(moved, live)[row])


def test_a_saved_row_goes_on_elsewhere(codes: Tensor) -> None:
    one, other = MimiDecoder(SPEC, golden_mimi(), 2), MimiDecoder(SPEC, golden_mimi(), 2)
    both = _live(True, True)
    for i in range(30):
        one.decode(codes[:, i], both)
    other.state.restore(1, one.state.save(0))
    for i in range(30, 40):
        want = one.decode(codes[:, i], both)[0]
        assert torch.equal(other.decode(codes[[0, 0], i], _live(False, True))[1], want)


def test_a_row_that_is_no_number_says_so(pcm: Tensor) -> None:
    encoder = MimiEncoder(SPEC, golden_mimi(), 2)
    frame = pcm[:, 0].clone()
    frame[1, 1900] = float("inf")
    _, finite = encoder.encode(frame, _live(True, True))
    assert finite.tolist() == [True, False]
