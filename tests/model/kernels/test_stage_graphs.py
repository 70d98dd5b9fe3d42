"""The captured graphs of the two stages, launch by launch, beside the plain model."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from rtc_agent.model.code2wav import Code2WavModel
from rtc_agent.model.cuda.code2wav import Code2WavGraph
from rtc_agent.model.cuda.encoder import conv_matrix
from rtc_agent.model.cuda.talker import TalkerGraph
from rtc_agent.model.lm import LanguageModel
from rtc_agent.model.random_weights import random_lm, random_mimi
from rtc_agent.model.talker import TalkerModel
from tests.lockstep_model import SPEC

ROWS = 2


def test_a_convolution_and_its_matrix_hold_the_same_numbers_once() -> None:
    weight = torch.randn(6, 5, 3, generator=torch.Generator().manual_seed(1))
    kept = weight.clone()
    matrix = conv_matrix(weight)
    assert torch.equal(weight, kept)
    assert matrix.is_contiguous() and matrix.shape == (6, 15)
    assert matrix.untyped_storage()._cdata == weight.untyped_storage()._cdata
    assert conv_matrix(weight).data_ptr() == matrix.data_ptr()
    x = torch.randn(1, 5, 3, generator=torch.Generator().manual_seed(2))
    by_matrix = matrix @ x.transpose(1, 2).flatten()
    assert torch.allclose(by_matrix, F.conv1d(x, weight).flatten(), atol=1e-5)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.skipif(torch.cuda.is_available(), reason="tests/gpu does this on the device")
def test_both_graphs_do_what_the_model_does() -> None:
    """In the interpreter, which takes a quarter of a minute or more a frame."""
    lm, mimi = random_lm(SPEC.lm, 1), random_mimi(SPEC.mimi, 1)
    talker, code2wav = TalkerModel(SPEC, lm, mimi, ROWS), Code2WavModel(SPEC, mimi, ROWS)
    state = LanguageModel(SPEC.lm, lm, ROWS).state
    talking, speaking = (
        TalkerGraph(SPEC, lm, random_mimi(SPEC.mimi, 1), state, ROWS),
        Code2WavGraph(SPEC, random_mimi(SPEC.mimi, 1), ROWS),
    )
    noise = torch.Generator().manual_seed(0)
    for tick in range(3):
        pcm = torch.randn(ROWS, SPEC.mimi.frame_samples, generator=noise) / 10
        live = torch.tensor([True, tick != 1])
        with torch.inference_mode():
            talk = talker.talk(pcm, live, greedy=True)
            sound = code2wav.decode(talk.codes.numpy(), talk.speaking.numpy())
            talking.heard.copy_(pcm)
            talking.live.copy_(live)
            talking.launch()
            speaking.codes.copy_(talk.codes)
            speaking.speaking.copy_(talk.speaking)
            speaking.launch()
        assert torch.equal(talking.speaking, talk.speaking)
        assert torch.equal(talking.codes[talk.speaking], talk.codes[talk.speaking])
        assert torch.equal(talking.text, talk.text)
        assert talking.healthy.all() and speaking.finite.all()
        said = torch.from_numpy(sound.pcm)[talk.speaking]
        assert torch.allclose(speaking.said[talk.speaking], said, atol=1e-5)
        assert not speaking.said[~talk.speaking].any()
