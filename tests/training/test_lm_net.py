"""The language model over whole conversations has the logits of the one that runs by the frame."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rtc_agent.engine.stepper import SamplingSpec
from rtc_agent.model.lm import LanguageModel
from rtc_agent.model.opening import finish, run_plan
from rtc_agent.model.prompts import VoiceCodes, plan_prompt
from rtc_agent.model.random_weights import random_lm
from rtc_agent.model.spec import AGENT_ROWS, TEXT_ROW, USER_ROWS
from rtc_agent.training.lm_net import code_logits, contexts, delayed_columns
from tests.lockstep_model import SPEC as SMALL

SPEC = replace(
    SMALL,
    lm=replace(SMALL.lm, context=33, window=32, depformer_checkpoint_steps=8, depformer_window=7),
)
LM = SPEC.lm
EXACT = {"atol": 1e-4, "rtol": 0.0}
PERSONA = (9, 8, 7)


class Forced:
    """The run-time's language model, whose every choice is made for it, and what it thought."""

    def __init__(self, columns: Tensor) -> None:
        self.model = LanguageModel(LM, random_lm(LM, 5), 1)
        self.columns = columns
        """[positions, 17]"""
        self.text: list[Tensor] = []
        self.codes: list[Tensor] = []

    def run(self, user: Tensor) -> None:
        """The coming positions, with the caller's frames [n, 8] there."""
        model = self.model
        real = model.depformer.run

        def run(context: Tensor, text: Tensor, pick: object, steps: int = 8) -> Tensor:
            coming = self.columns[int(model.state.position[0]) + 1]

            def force(k: int, logits: Tensor) -> Tensor:
                self.codes.append(logits[0])
                return coming[AGENT_ROWS][k][None]

            return real(context, coming[TEXT_ROW][None], force, steps)

        model.depformer.run = run  # type: ignore[method-assign, assignment]
        for frame in user:
            forced = self.columns[int(model.state.position[0])].clone()
            # The caller's newest code is the tick's own to fill in.
            forced[USER_ROWS.start] = LM.audio_sos
            model.state.column[0] = forced
            self.text.append(model.tick(frame[None], torch.tensor([True])).text_logits[0])
        model.depformer.run = real  # type: ignore[method-assign]


def _frames(n: int, seed: int = 0) -> Tensor:
    """[1, 17, n] random tokens."""
    chance = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, LM.card, (1, 17, n), generator=chance)
    frames[:, TEXT_ROW] = torch.randint(0, LM.text_card, (n,), generator=chance)
    return frames


def _compare(forced: Forced, columns: Tensor, first: int) -> None:
    weights = forced.model.weights
    context, _ = contexts(LM, weights, columns[None, :-1])
    text = torch.nn.functional.linear(context[0], weights.text_linear)
    codes = code_logits(LM, weights, context[0], columns[1:])
    n = len(forced.text)
    assert n >= 8
    torch.testing.assert_close(text[first : first + n], torch.stack(forced.text), **EXACT)
    stepped = torch.stack(forced.codes).view(n, 8, -1).transpose(0, 1)
    torch.testing.assert_close(codes[:, first : first + n], stepped, **EXACT)
    assert codes.std() > 0.1 and text.std() > 0.1


def test_every_logit_is_the_run_times() -> None:
    frames = _frames(LM.window)
    columns = delayed_columns(LM, frames)[0]
    forced = Forced(columns)
    forced.run(frames[0, USER_ROWS].t())
    _compare(forced, columns, 0)


def test_after_a_prompt_too() -> None:
    voice = VoiceCodes(
        torch.randint(0, LM.card, (2, 8), generator=torch.Generator().manual_seed(1))
    )
    plan = plan_prompt(SPEC, voice, PERSONA)
    prompt = _prompt_frames(voice, PERSONA)
    live = _frames(LM.window - prompt.shape[2] - 1, seed=2)
    columns = delayed_columns(LM, torch.cat((prompt, live), 2))[0]
    assert torch.equal(columns[: plan.length], plan.columns)
    forced = Forced(columns)
    opening = finish(run_plan(forced.model.temporal, plan, 4))
    model = forced.model
    model.reset(0)
    model.state.sampling.set(0, SamplingSpec(greedy=True), 0)
    first_text = model.open(0, opening.prefix, opening.column)
    assert torch.equal(opening.column[2:9], columns[plan.length, 2:9])
    forced.run(live[0, USER_ROWS].t())
    _compare(forced, columns, plan.length)
    context, _ = contexts(LM, model.weights, columns[None, :-1])
    text = torch.nn.functional.linear(context[0, plan.length - 1], model.weights.text_linear)
    torch.testing.assert_close(text, first_text[0], **EXACT)


def test_the_depformers_last_step_does_not_see_the_first() -> None:
    weights = random_lm(LM, 5)
    context = torch.randn((3, LM.dim), generator=torch.Generator().manual_seed(1))
    coming = _frames(3)[0].t()
    other = coming.clone()
    # Step 0 is the only one that is told the text.
    other[:, TEXT_ROW] = (coming[:, TEXT_ROW] + 1) % LM.text_card
    one, two = (code_logits(LM, weights, context, c) for c in (coming, other))
    changed = (one - two).abs().amax((1, 2)) > 1e-6
    assert changed.tolist() == [True] * 7 + [False]


def _prompt_frames(voice: VoiceCodes, persona: tuple[int, ...]) -> Tensor:
    silence = torch.tensor(SPEC.silence_codes)[:, None]
    n = 12 + len(persona)
    text = torch.full((len(voice.codes) + n,), LM.text_pad)
    text[len(voice.codes) + 6 :][: len(persona)] = torch.tensor(persona)
    agent = torch.cat((voice.codes.t(), silence.repeat(1, n)), 1)
    user = torch.tensor(SPEC.sine_codes)[:, None].repeat(1, len(text))
    return torch.cat((text[None], agent, user))[None]
