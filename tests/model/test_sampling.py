"""Draws: reproducible, independent of neighbours, and distributed as they should be."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from rtc_agent.engine.stepper import SamplingSpec
from rtc_agent.errors import InvalidRequest
from rtc_agent.model.philox import philox, uniform
from rtc_agent.model.sampling import (
    AUDIO_STREAMS,
    MAX_TOP_K,
    SamplingState,
    check_sampling,
    draw,
    gumbel_noise,
    is_greedy,
)

torch.set_num_threads(1)


def _words(value: int, shape: tuple[int, ...] = (1,)) -> Tensor:
    return torch.full(shape, value, dtype=torch.int64)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        # Known answers of the Random123 library.
        ((0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_its_known_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    c0, c1, c2, c3 = (_words(w) for w in counter)
    out = philox((c0, c1, c2, c3), (_words(key[0]), _words(key[1])))
    assert tuple(out[0].tolist()) == expected


def test_uniform_is_strictly_inside_its_interval() -> None:
    ends = uniform(torch.tensor([0, 2**32 - 1]))
    assert 0.0 < ends[0] < ends[1] < 1.0


N = 3_000


@cache
def _noise() -> Tensor:
    """The noise of one session's first positions over forty tokens."""
    return gumbel_noise(torch.tensor([[7, 9]]), torch.arange(N), range(9), 40)


def _draws(logits: Tensor, temperature: float, top_k: int, stream: int = 1) -> Tensor:
    return draw(
        logits.repeat(N, 1),
        torch.zeros(N, dtype=torch.bool),
        torch.full((N,), temperature),
        torch.full((N,), top_k),
        _noise()[:, stream, : len(logits)],
    )


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, 40), (0.7, 40), (0.8, 10), (1.5, 3)])
@pytest.mark.parametrize("stream", [0, 4])
def test_draws_follow_the_softmax_of_the_candidates(
    temperature: float, top_k: int, stream: int
) -> None:
    logits = torch.randn(40, generator=torch.Generator().manual_seed(3))
    counts = torch.bincount(_draws(logits, temperature, top_k, stream), minlength=40)
    values, ids = logits.topk(top_k)
    expected = torch.softmax(values.double() / temperature, 0) * N
    assert counts.sum() == counts[ids].sum() == N
    common = expected >= 5
    observed = [*counts[ids][common].tolist(), int(counts[ids][~common].sum())]
    wanted = [*expected[common].tolist(), float(expected[~common].sum())]
    if wanted[-1] == 0:
        observed, wanted = observed[:-1], wanted[:-1]
    assert stats.chisquare(observed, wanted).pvalue > 1e-3


def test_streams_of_a_position_are_independent() -> None:
    logits = torch.zeros(4)
    first, second = (_draws(logits, 1.0, 4, stream) for stream in (2, 3))
    pairs = torch.bincount(first * 4 + second, minlength=16).view(4, 4)
    assert stats.chi2_contingency(pairs.numpy()).pvalue > 1e-3


def test_what_equals_the_last_candidate_is_one_too() -> None:
    logits = torch.zeros(40)
    logits[:4] = 1.0
    logits[30:] = -1.0
    assert set(_draws(logits, 1.0, 4).tolist()) == set(range(4))
    assert set(_draws(logits, 1.0, 5).tolist()) == set(range(30))


def test_an_order_of_the_tokens_does_not_show() -> None:
    """The noise goes with the token, not with where its logit stands among the others."""
    logits = torch.randn(40, generator=torch.Generator().manual_seed(4))
    order = torch.randperm(40, generator=torch.Generator().manual_seed(5))
    shuffled = draw(
        logits[order].repeat(N, 1),
        torch.zeros(N, dtype=torch.bool),
        torch.full((N,), 0.8),
        torch.full((N,), 10),
        _noise()[:, 1, order],
    )
    assert torch.equal(order[shuffled], _draws(logits, 0.8, 10))


def test_a_top_k_beyond_the_vocabulary_is_all_of_it() -> None:
    assert torch.equal(_draws(torch.zeros(40), 1.0, 40), _draws(torch.zeros(40), 1.0, MAX_TOP_K))


@given(st.integers(0, 2**32), st.floats(1e-4, 1e-3))
@settings(max_examples=25, deadline=None)
def test_greedy_is_the_limit_of_small_temperatures(seed: int, temperature: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randperm(64, generator=generator).float()[None] / 8
    words = torch.tensor([[seed & 0xFFFFFFFF, seed >> 32]])
    noise = gumbel_noise(words, torch.tensor([3]), (0,), 64)
    args = (torch.tensor([temperature]), torch.tensor([25]), noise[:, 0])
    cold = draw(logits, torch.tensor([False]), *args)
    greedy = draw(logits, torch.tensor([True]), *args)
    assert cold == greedy == logits.argmax()


def test_noise_belongs_to_seed_and_position_alone() -> None:
    seeds = torch.tensor([[1, 0], [2, 0], [1, 1], [1, 0]])
    positions = torch.tensor([5, 5, 5, 2**33 + 5])
    together = gumbel_noise(seeds, positions, AUDIO_STREAMS, 50)
    assert together.shape == (4, 8, 50)
    for row in range(4):
        alone = gumbel_noise(seeds[row : row + 1], positions[row : row + 1], AUDIO_STREAMS, 50)
        assert torch.equal(alone[0], together[row])
        assert all(not torch.equal(together[row], together[o]) for o in range(4) if o != row)


def test_a_row_keeps_its_settings() -> None:
    state = SamplingState.empty(3, torch.device("cpu"))
    spec = SamplingSpec(text_temperature=0.0, audio_temperature=0.5, text_top_k=9, audio_top_k=70)
    state.set(1, spec, 2**63 + 12345)
    one = state.narrow(1)
    assert one.seed.tolist() == [[12345, 2**31]]
    assert one.greedy.tolist() == [[True, False]]
    assert one.temperature[0, 1] == 0.5
    assert one.top_k.tolist() == [[9, 70]]
    assert state.greedy[0].all()
    assert state.greedy[2].all()


@pytest.mark.parametrize(
    ("spec", "greedy"),
    [
        (SamplingSpec(), False),
        (SamplingSpec(greedy=True), True),
        (SamplingSpec(text_temperature=0.0), False),
        (SamplingSpec(text_temperature=0.0, audio_temperature=0.0), True),
    ],
)
def test_greedy_by_name_or_by_temperature(spec: SamplingSpec, greedy: bool) -> None:
    assert is_greedy(spec) is greedy


@pytest.mark.parametrize(
    "spec",
    [
        SamplingSpec(text_temperature=-0.1),
        SamplingSpec(audio_temperature=float("nan")),
        SamplingSpec(audio_temperature=float("inf")),
        SamplingSpec(text_top_k=0),
        SamplingSpec(audio_top_k=MAX_TOP_K + 1),
        SamplingSpec(seed=-1),
        SamplingSpec(seed=2**64),
    ],
)
def test_settings_that_no_draw_can_follow_are_refused(spec: SamplingSpec) -> None:
    with pytest.raises(InvalidRequest):
        check_sampling(spec)
    check_sampling(SamplingSpec(seed=2**64 - 1, audio_top_k=MAX_TOP_K))
