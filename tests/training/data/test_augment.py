from __future__ import annotations

import math

import pytest
import torch

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.training.data.augment import Line, mu_law, speech_level

SAMPLES = 20 * FRAME_SAMPLES


def _chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _speech(rows: int) -> torch.Tensor:
    pcm = 0.1 * torch.randn(rows, SAMPLES, generator=_chance(9))
    pcm[:, : 8 * FRAME_SAMPLES] = 0
    return pcm


def test_what_is_heard_is_finite_bounded_and_the_same_for_the_same_chance() -> None:
    caller = _speech(6)
    heard, clean = Line()(caller, torch.zeros_like(caller), _chance())
    assert heard.shape == clean.shape == caller.shape
    assert heard.isfinite().all() and heard.abs().max() <= 1
    again, _ = Line()(caller, torch.zeros_like(caller), _chance())
    assert torch.equal(heard, again)


def test_hiss_never_drowns_the_caller() -> None:
    caller = _speech(24)
    line = Line(quiet=0, babble=0, echo=0, mu_law=0, dropped=0, hiss_dbfs=(-10.0, -10.0))
    heard, clean = line(caller, torch.zeros_like(caller), _chance())
    hiss = 20 * torch.log10((heard - clean).std(1))
    assert (speech_level(clean)[:, 0] - hiss > line.least_ratio_db - 0.7).all()


def test_hiss_is_there_when_no_one_speaks() -> None:
    nothing = torch.zeros(4, SAMPLES)
    line = Line(quiet=0, mu_law=0, dropped=0, hiss_dbfs=(-33.0, -33.0))
    heard, clean = line(nothing, nothing, _chance())
    assert clean.abs().max() == 0
    assert 20 * torch.log10(heard.std(1)) == pytest.approx(-33, abs=0.5)


def test_other_people_stay_below_the_caller() -> None:
    caller = _speech(6)
    line = Line(quiet=1, babble=1, echo=0, mu_law=0, dropped=0, room=0, clipped=0)
    heard, clean = line(caller, torch.zeros_like(caller), _chance())
    apart = speech_level(clean) - speech_level(heard - clean)
    assert (apart > line.babble_below_db[0] - 1).all()


def test_the_agents_echo_comes_late_and_low() -> None:
    agent = torch.zeros(2, SAMPLES)
    agent[:, 0] = 1
    line = Line(quiet=1, babble=0, echo=1, mu_law=0, dropped=0)
    heard, _ = line(torch.zeros_like(agent), agent, _chance())
    at = heard.abs().argmax(1)
    assert (at >= 800).all() and (at == at[0]).all()
    assert (heard.abs().amax(1) <= 10 ** (line.echo_db[1] / 20) + 1e-6).all()


def test_mu_law_keeps_256_levels_with_small_steps_for_small_sounds() -> None:
    ramp = torch.linspace(-1, 1, 20_001)
    coded = mu_law(ramp)
    assert len(coded.unique()) <= 256
    assert torch.equal(mu_law(coded).sign(), coded.sign())
    near = ramp.abs() < 0.01
    assert (coded - ramp)[near].abs().max() < 4e-4
    assert (coded - ramp).abs().max() < 0.025


def test_speech_level_leaves_pauses_out() -> None:
    pcm = torch.zeros(1, SAMPLES)
    pcm[:, : SAMPLES // 2] = 0.1 * torch.randn(SAMPLES // 2, generator=_chance())
    assert speech_level(pcm).item() == pytest.approx(-20, abs=0.3)
    assert speech_level(torch.zeros(1, SAMPLES)).item() == pytest.approx(-100, abs=0.1)
    assert math.isfinite(speech_level(torch.zeros(1, SAMPLES)).item())
