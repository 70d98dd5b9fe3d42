"""The tick's columns: what is lost at the start, what a prompt leaves, and rows that sit out."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.engine.stepper import SamplingSpec
from rtc_agent.model.lm import LanguageModel, LmFrame
from rtc_agent.model.opening import finish, run_plan
from rtc_agent.model.prompts import VoiceCodes, plan_prompt
from tests.golden import golden_lm, golden_spec, replay

torch.set_num_threads(1)

SPEC = golden_spec("lm_a")
USER = replay("lm_a")["user_codes"].long()


def _model(rows: int = 1) -> LanguageModel:
    return LanguageModel(SPEC.lm, golden_lm(), rows)


def _tick(model: LanguageModel, user: Tensor, *live: bool) -> LmFrame:
    return model.tick(user.expand(model.rows, 8), torch.tensor(live or (True,) * model.rows))


def _run(user: Tensor) -> list[tuple[list[int], list[int]]]:
    model = _model()
    frames = [_tick(model, codes) for codes in user]
    return [(f.text.tolist(), f.codes[0].tolist()) for f in frames]


def test_the_callers_first_frame_is_never_seen() -> None:
    changed = USER[:12].clone()
    changed[0] = (changed[0] + 1) % SPEC.lm.card
    assert _run(changed) == _run(USER[:12])


def test_a_frame_is_heard_on_its_own_tick_and_its_later_codebooks_on_the_next() -> None:
    plain = _run(USER[:8])
    for codebook, first in ((0, 4), (1, 5), (7, 5)):
        changed = USER[:8].clone()
        changed[4, codebook] = (changed[4, codebook] + 1) % SPEC.lm.card
        model, other = _model(), _model()
        for at in range(8):
            one, two = _tick(model, USER[at]), _tick(other, changed[at])
            assert torch.equal(one.text_logits, two.text_logits) is (at < first)
    assert len({str(frame) for frame in plain}) == len(plain)


def test_position_zero_is_no_frame_and_position_one_starts_in_the_delayed_rows() -> None:
    model = _model()
    assert _tick(model, USER[0]).text.tolist() == [SPEC.lm.text_sos]
    column = model.state.column[0]
    assert (column[2:9] == SPEC.lm.audio_sos).all()
    assert (column[10:] == SPEC.lm.audio_sos).all()
    assert column[0] < SPEC.lm.text_card
    assert column[1] < SPEC.lm.card
    _tick(model, USER[1])
    assert torch.equal(model.state.column[0, 10:], USER[1, 1:])
    assert (model.state.column[0] < SPEC.lm.card).all()


def test_a_prompt_leaves_its_last_frame_pending() -> None:
    plan = plan_prompt(SPEC, VoiceCodes(replay("lm_a")["voice_codes"].long()), [7, 8])
    model = _model(2)
    opening = finish(run_plan(model.temporal, plan, 16))
    model.reset(1)
    model.state.sampling.set(1, SamplingSpec(greedy=True), 0)
    logits = model.open(1, opening.prefix, opening.column)
    column = model.state.column[1]
    assert column[0] == logits[0].argmax()
    assert torch.equal(column[2:9], torch.tensor(SPEC.silence_codes[1:]))
    assert torch.equal(column[10:], torch.tensor(SPEC.sine_codes[1:]))
    assert model.state.position.tolist() == [0, plan.length]


def test_a_row_that_sits_out_keeps_its_place() -> None:
    together, alone = _model(2), _model()
    at = 0
    for tick in range(20):
        live = tick % 3 != 1
        frame = _tick(together, USER[at], True, live)
        if live:
            one = _tick(alone, USER[at])
            torch.testing.assert_close(frame.text_logits[1], one.text_logits[0])
            assert torch.equal(frame.codes[1], one.codes[0])
            at += 1
    assert together.state.position.tolist() == [20, at]


def test_numbers_that_are_none_are_told() -> None:
    model = _model(2)
    _tick(model, USER[0])
    model.state.temporal.keys[0, 1, 0, 0, 0] = float("nan")
    assert _tick(model, USER[1]).finite.tolist() == [True, False]
