"""The tiny agent: made on the fly, the same every time, with a voice of some kind."""

from __future__ import annotations

import numpy as np
import torch

from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.stepper import SamplingSpec, SessionSpec
from rtc_agent.engine.tiny import tiny_model
from rtc_agent.model.tiny import TINY_SPEC, LetterTokenizer
from tests.lockstep_model import Said, noise, run_alone

torch.set_num_threads(1)

SPEC = SessionSpec(sampling=SamplingSpec(seed=1))


def _talk(seed: int, spec: SessionSpec = SPEC) -> Said:
    return run_alone(LockstepStepper(tiny_model(seed), 1), 0, spec, noise(1, 25))


def test_the_same_seed_is_the_same_agent() -> None:
    first = _talk(0)
    assert _talk(0) == first
    assert _talk(1).text != first.text


def test_it_is_heard_and_does_not_clip() -> None:
    pcm = np.concatenate(_talk(0).pcm[1:])
    assert 0.01 < np.sqrt(np.mean(pcm**2)) < 0.2
    assert np.abs(pcm).max() < 1.0


def test_it_writes_letters() -> None:
    said = "".join(_talk(0).text)
    tokenizer = LetterTokenizer()
    assert len(said) > 10
    assert len(tokenizer.encode(said)) == len(said)


def test_a_persona_opens_it_and_changes_what_it_says() -> None:
    persona = SessionSpec(persona="You are a clock.", sampling=SamplingSpec(seed=1))
    assert _talk(0, persona).text != _talk(0).text


def test_a_letter_is_its_own_id_both_ways() -> None:
    tokenizer = LetterTokenizer()
    ids = tokenizer.encode("Hello, world 7!")
    assert "".join(map(tokenizer.id_to_piece, ids)) == "hello, world !"
    assert max(ids) < TINY_SPEC.lm.text_card == tokenizer.vocab_size()
    assert tokenizer.is_control(3)
    assert not tokenizer.is_control(ids[0])
    assert not tokenizer.is_byte(ids[0])
