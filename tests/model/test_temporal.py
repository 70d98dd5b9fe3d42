"""A prompt in parallel is the same prompt position by position, past the window's end too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rtc_agent.model.spec import LmSpec
from rtc_agent.model.temporal import Prefill, Prefix, TemporalState, TemporalTransformer
from tests.golden import golden_lm, golden_spec

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def transformer() -> TemporalTransformer:
    return TemporalTransformer(golden_spec("lm_a").lm, golden_lm())


def _columns(spec: LmSpec, n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    columns = torch.randint(0, spec.card, (n, 17), generator=generator)
    columns[:, 0] = torch.randint(0, spec.text_card, (n,), generator=generator)
    return columns


def _prefill(transformer: TemporalTransformer, x: Tensor, chunk: int) -> Prefix:
    prefill = Prefill(transformer)
    for piece in x.split(chunk):
        prefill.run(piece)
    return prefill.finish()


def _state(transformer: TemporalTransformer, rows: int) -> TemporalState:
    return TemporalState.empty(transformer.spec, rows, torch.device("cpu"), torch.float32)


@pytest.mark.parametrize("length", [1, 7, 22, 23, 24, 61])
@pytest.mark.parametrize("chunk", [5, 64])
def test_parallel_equals_stepping(
    transformer: TemporalTransformer, length: int, chunk: int
) -> None:
    x = transformer.embed(_columns(transformer.spec, length + 9, seed=length))
    stepped = _state(transformer, 1)
    last = x[:1]
    for i in range(length):
        last = transformer.step(x[i : i + 1], stepped)
        stepped.position.add_(1)
    prefix = _prefill(transformer, x[:length], chunk)
    copied = _state(transformer, 3)
    prefix.copy_to(copied, 1)

    held = min(length, transformer.spec.window)
    assert prefix.keys.shape[2] == held
    for ours, theirs in ((copied.keys, stepped.keys), (copied.values, stepped.values)):
        torch.testing.assert_close(ours[:, 1], theirs[:, 0], atol=1e-5, rtol=0)
        assert not ours[:, 0].any()
        assert not ours[:, 2].any()
    torch.testing.assert_close(prefix.last, last[0], atol=1e-5, rtol=0)
    assert copied.position.tolist() == [0, length, 0]
    for i in range(length, length + 9):
        one = transformer.step(x[i : i + 1], stepped)
        three = transformer.step(x[i : i + 1].repeat(3, 1), copied)
        stepped.position.add_(1)
        copied.position.add_(1)
        torch.testing.assert_close(three[1], one[0], atol=1e-5, rtol=0)


def test_a_prompt_run_twice_is_the_same_to_the_bit(transformer: TemporalTransformer) -> None:
    x = transformer.embed(_columns(transformer.spec, 50, seed=1))
    first, second = (_prefill(transformer, x, 16) for _ in range(2))
    assert torch.equal(first.keys, second.keys)
    assert torch.equal(first.values, second.values)
    assert torch.equal(first.last, second.last)


def test_the_window_forgets_what_is_behind_it(transformer: TemporalTransformer) -> None:
    """Layers widen what a position depends on; the first layer's keys must not carry more."""
    spec = transformer.spec
    reach = spec.num_layers * (spec.window - 1)
    columns = _columns(spec, reach + 5, seed=2)
    changed = columns.clone()
    changed[0, 0] = (changed[0, 0] + 1) % spec.text_card
    for length, same in ((reach + 1, False), (reach + 2, True)):
        one, other = (
            _prefill(transformer, transformer.embed(c[:length]), 16) for c in (columns, changed)
        )
        assert torch.equal(one.last, other.last) is same


def test_minus_one_embeds_to_nothing(transformer: TemporalTransformer) -> None:
    empty = transformer.embed(torch.full((2, 17), -1))
    assert not empty.any()
    columns = torch.full((1, 17), -1)
    columns[0, 5] = 9
    assert torch.equal(transformer.embed(columns)[0], golden_lm().audio_emb[4, 9])


def test_a_reset_row_is_as_new(transformer: TemporalTransformer) -> None:
    state = _state(transformer, 2)
    x = transformer.embed(_columns(transformer.spec, 2, seed=3))
    transformer.step(x, state)
    state.position.add_(1)
    state.keys[0, 0, 0, 0, 0] = float("nan")
    other = state.keys[:, 1].clone()
    state.reset(0)
    assert not state.keys[:, 0].any()
    assert not state.values[:, 0].any()
    assert state.position.tolist() == [0, 1]
    assert torch.equal(state.keys[:, 1], other)


def test_an_empty_prefix_is_refused(transformer: TemporalTransformer) -> None:
    with pytest.raises(ValueError, match="at least one"):
        Prefill(transformer).finish()
