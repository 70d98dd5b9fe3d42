"""Prompts as columns: the delays, what is lost at the start, and what is left pending."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.errors import ConfigError
from rtc_agent.model.mimi import MimiEncoder
from rtc_agent.model.opening import encode_clip, finish
from rtc_agent.model.prompts import VoiceBundle, VoiceClip, VoiceCodes, plan_prompt
from tests.golden import golden_lm, golden_mimi, golden_spec, replay

torch.set_num_threads(1)

SPEC = golden_spec("lm_a")
LM = SPEC.lm
SILENCE, SINE = torch.tensor(SPEC.silence_codes), torch.tensor(SPEC.sine_codes)


@given(st.integers(1, 12), st.lists(st.integers(4, 399), max_size=9))
@settings(max_examples=30, deadline=None)
def test_every_token_is_at_its_frame_and_delay(voice_frames: int, persona: list[int]) -> None:
    voice = torch.arange(voice_frames * 8).view(-1, 8)
    plan = plan_prompt(SPEC, VoiceCodes(voice), persona)
    frames = voice_frames + 6 + len(persona) + 6
    assert plan.embeddings is None
    assert plan.length == len(plan.columns) == frames
    columns = torch.cat((plan.columns, plan.pending[None]))
    text = [LM.text_pad] * (voice_frames + 6) + persona + [LM.text_pad] * 6
    agent = torch.cat((voice, SILENCE.repeat(frames - voice_frames, 1)))
    for p in range(1, frames):
        assert columns[p, 0] == text[p]
        assert columns[p, 1] == agent[p, 0]
        assert columns[p, 9] == SINE[0]
    for p in range(2, frames + 1):
        assert torch.equal(columns[p, 2:9], agent[p - 1, 1:])
        assert torch.equal(columns[p, 10:], SINE[1:])
    assert columns[0].tolist() == list(LM.sos_column)
    assert (columns[1, 2:9] == LM.audio_sos).all()
    assert (columns[1, 10:] == LM.audio_sos).all()


def test_a_saved_voice_is_the_same_prompt_as_its_codes() -> None:
    recorded = replay("lm_a")
    codes = VoiceCodes(recorded["voice_codes"].long())
    bundle = VoiceBundle.from_saved(
        recorded["voice_bundle.embeddings"], recorded["voice_bundle.cache"]
    )
    persona = recorded["persona_tokens"].tolist()
    long, short = plan_prompt(SPEC, codes, persona), plan_prompt(SPEC, bundle, persona)
    assert short.length == long.length
    assert short.embeddings is not None
    given = len(short.embeddings)
    assert given == 8
    assert torch.equal(short.columns, long.columns[given:])
    assert torch.equal(short.pending, long.pending)


def test_without_voice_and_persona_there_is_silence() -> None:
    plan = plan_prompt(SPEC, None, [])
    assert plan.length == 12
    assert torch.equal(plan.pending[2:9], SILENCE[1:])


def test_a_clip_is_encoded_frame_by_frame_from_a_fresh_state() -> None:
    recorded = replay("e2e_a")
    spec, mimi = golden_spec("e2e_a").mimi, golden_mimi("e2e_a")
    clip = VoiceClip.from_pcm(recorded["voice_pcm_normalized"])
    assert clip.frames.shape == (17, 1920)
    assert not clip.frames[-1, -1440:].any()
    encoder = MimiEncoder(spec, mimi, 1)
    for _ in range(2):
        voice = finish(encode_clip(encoder, clip))
        assert torch.equal(voice.codes, recorded["voice_codes"].T.long())


@pytest.mark.parametrize(
    "voice",
    [
        VoiceCodes(torch.zeros((3, 7), dtype=torch.int64)),
        VoiceCodes(torch.zeros((0, 8), dtype=torch.int64)),
        VoiceCodes(torch.full((3, 8), 2048)),
        VoiceCodes(torch.full((3, 8), -1)),
        VoiceBundle(torch.zeros(3, LM.dim + 1), torch.zeros((17, 4), dtype=torch.int64)),
        VoiceBundle(torch.zeros(3, LM.dim), torch.zeros((17, 5), dtype=torch.int64)),
    ],
)
def test_a_voice_of_another_model_is_refused(voice: VoiceCodes | VoiceBundle) -> None:
    with pytest.raises(ConfigError, match="voice"):
        plan_prompt(SPEC, voice, [])


def test_a_file_of_another_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected"):
        VoiceBundle.from_saved(torch.zeros(3, 1, LM.dim), torch.zeros(1, 17, 4))
    with pytest.raises(ConfigError, match="expected"):
        VoiceBundle.from_saved(torch.zeros(3, 1, 1, LM.dim), torch.zeros(17, 4))
    assert golden_lm().text_emb.shape[1] == LM.dim
