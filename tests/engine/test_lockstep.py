"""The lock-step stepper as the engine sees it: opening, refusing, failing, keeping prompts."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_agent.engine.lockstep import NoVoices
from rtc_agent.engine.stepper import FRAME_SAMPLES, Draws, FrameStepper, SamplingSpec, SessionSpec
from rtc_agent.errors import InvalidPersona, InvalidRequest, UnknownVoice
from rtc_agent.model.detokenizer import Detokenizer
from tests.lockstep_model import (
    GREEDY,
    PROMPTED,
    SAMPLED,
    SPEC,
    Said,
    TwoVoices,
    noise,
    open_slot,
    run_alone,
    step_one,
    stepper,
)


def _live(slots: int, *live: int) -> np.ndarray:
    mask = np.zeros(slots, np.bool_)
    mask[list(live)] = True
    return mask


def test_says_what_it_is() -> None:
    engine: FrameStepper = stepper(3)
    assert engine.slots == 3
    info = engine.info
    assert (info.voices, info.default_voice) == (("coded", "recorded"), None)
    assert info.takes_persona
    assert info.persona_max_chars > 0
    assert info.latency_frames == 1


def test_of_a_closed_domain_a_persona_is_followed_by_the_names_that_it_knows() -> None:
    info = stepper(1).info
    assert info.takes_persona and info.follows_persona and not info.persona_names
    info = stepper(1, names=()).info
    assert info.takes_persona and not info.follows_persona
    info = stepper(1, names=("Ada", "Max")).info
    assert info.takes_persona and info.follows_persona and info.persona_names == ("Ada", "Max")


def test_the_first_frame_of_a_fresh_call_is_silence_without_text() -> None:
    said = run_alone(stepper(1), 0, GREEDY, noise(1, 4))
    assert not said.pcm[0].any()
    assert all(pcm.any() for pcm in said.pcm[1:])
    assert said.text[0] == f"{SPEC.lm.text_sos} "


def test_a_session_draws_as_its_agent_does_unless_it_says_otherwise() -> None:
    frames = noise(1, 6)
    reference = SessionSpec(sampling=SamplingSpec(seed=4))
    cool = SessionSpec(
        sampling=SamplingSpec(text_temperature=0.2, audio_temperature=0.2, audio_top_k=9, seed=4)
    )
    usual = Draws(text_temperature=0.2, audio_temperature=0.2, audio_top_k=9)
    of_reference = run_alone(stepper(1), 0, reference, frames)
    of_cool = run_alone(stepper(1), 0, cool, frames)
    assert of_reference != of_cool
    assert run_alone(stepper(1, draws=usual), 0, reference, frames) == of_cool


def test_a_character_cut_short_by_the_end_shows() -> None:
    # Every id is the first byte of a character of three.
    table = (b"\xe2",) * (SPEC.lm.text_card + 1)
    engine = stepper(1, text_stream=lambda: Detokenizer(table))
    open_slot(engine, 0, GREEDY)
    said = Said()
    step_one(engine, 0, noise(1, 1)[0], said)
    assert said.text == [""]
    assert engine.close(0) == "\ufffd"
    assert engine.close(0) == ""


def test_a_prompted_call_speaks_from_its_first_frame() -> None:
    said = run_alone(stepper(1), 0, PROMPTED, noise(1, 4))
    assert said.pcm[0].any()
    assert said.text[0] != f"{SPEC.lm.text_sos} "


def test_a_prompt_is_opened_in_bounded_pieces_and_then_kept() -> None:
    engine = stepper(2)
    # Nine frames of voice, eight letters and their tags, twelve frames of silence: by eights.
    positions = 9 + len("<system> Be kind. <system>") + 12
    assert open_slot(engine, 0, PROMPTED) == -(-positions // 8) + 1
    assert len(engine.prefixes) == 1
    assert open_slot(engine, 1, PROMPTED) == 1
    engine.close(1)
    assert open_slot(engine, 1, SessionSpec("coded", "Be unkind.")) > 1
    assert len(engine.prefixes) == 2


def test_a_kept_prompt_gives_the_same_call_as_a_fresh_one() -> None:
    voices = TwoVoices()
    engine = stepper(2, voices=voices)
    spec = SessionSpec("recorded", "Hi", SamplingSpec(seed=1))
    fresh = run_alone(engine, 0, spec, noise(1, 30))
    assert run_alone(engine, 1, spec, noise(1, 30)) == fresh
    assert voices.loads == ["recorded"]
    engine.prefixes.clear()
    assert run_alone(engine, 1, spec, noise(1, 30)) == fresh
    other = SessionSpec("recorded", "Hi", SamplingSpec(seed=2))
    assert run_alone(engine, 0, other, noise(1, 30)).text != fresh.text


def test_the_same_seed_is_the_same_call_and_none_is_chosen_for_it() -> None:
    engine = stepper(2)
    seeded = SessionSpec(sampling=SamplingSpec(seed=99))
    unseeded = SessionSpec()
    assert run_alone(engine, 0, seeded, noise(1, 20)) == run_alone(
        engine, 1, unseeded, noise(1, 20)
    )


def test_giving_up_while_opening_leaves_the_slot_free() -> None:
    engine = stepper(2)
    opening = engine.open(0, PROMPTED)
    next(opening)
    opening.close()  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="not open"):
        engine.step(noise(1, 2), _live(2, 0))
    assert run_alone(engine, 0, PROMPTED, noise(1, 9)) == run_alone(
        stepper(2), 0, PROMPTED, noise(1, 9)
    )


def test_a_row_that_is_no_number_fails_alone_until_it_is_closed() -> None:
    engine = stepper(2, bank_rows=2)
    open_slot(engine, 0, SAMPLED)
    open_slot(engine, 1, SAMPLED)
    pcm = noise(1, 2)
    pcm[1, 5] = np.nan
    result = engine.step(pcm, _live(2, 0, 1))
    assert list(result.failed) == [1]
    assert "finite" in result.failed[1]
    assert 1 not in result.text
    assert list(engine.step(noise(2, 2), _live(2, 0, 1)).failed) == [1]
    engine.close(1)
    open_slot(engine, 1, SAMPLED)
    assert not engine.step(noise(3, 2), _live(2, 0, 1)).failed


def test_rows_that_sit_out_are_silent() -> None:
    engine = stepper(2, bank_rows=2)
    open_slot(engine, 0, PROMPTED)
    open_slot(engine, 1, PROMPTED)
    result = engine.step(noise(1, 2), _live(2, 1))
    assert not result.pcm[0].any()
    assert result.pcm[1].any()
    assert 0 not in result.text
    assert result.pcm.shape == (2, FRAME_SAMPLES)
    assert result.pcm.dtype == np.float32


def test_nobody_live_is_a_step_too() -> None:
    result = stepper(2).step(noise(1, 2), _live(2))
    assert (result.text, result.failed) == ({}, {})


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        (SessionSpec(voice="../coded"), UnknownVoice, "coded, recorded"),
        (SessionSpec(persona="x" * 5000), InvalidPersona, "5000 characters"),
        (SessionSpec(persona="x" * 200), InvalidPersona, "64 at most"),
        (SessionSpec(sampling=SamplingSpec(audio_top_k=0)), InvalidRequest, "audio_top_k"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_runs(
    spec: SessionSpec, error: type[InvalidRequest], words: str
) -> None:
    engine = stepper(1)
    for refused in (lambda: engine.check(spec), lambda: engine.open(0, spec)):
        with pytest.raises(error, match=words):
            refused()
    assert open_slot(engine, 0, GREEDY) == 1


def test_a_model_without_prompts_refuses_them() -> None:
    engine = stepper(1, voices=NoVoices(), text_encoder=None)
    assert not engine.info.takes_persona
    with pytest.raises(UnknownVoice, match="has none"):
        engine.check(SessionSpec(voice="coded"))
    with pytest.raises(InvalidPersona, match="no persona"):
        engine.check(SessionSpec(persona="Be kind."))
    engine.check(SessionSpec(persona="  "))


def test_slots_that_are_taken_or_absent_cannot_be_opened() -> None:
    engine = stepper(1)
    open_slot(engine, 0, GREEDY)
    for slot in (0, 1, -1):
        with pytest.raises(ValueError, match="not a free one"):
            engine.open(slot, GREEDY)
    engine.shutdown()
    engine.shutdown()


def test_slots_must_fill_their_banks() -> None:
    with pytest.raises(ValueError, match="banks of 3"):
        stepper(8, bank_rows=3)
