from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.training.data.augment import Line, by_phone, mu_law, speech_level
from rtc_agent.training.data.evaluation_sets import telephone

SAMPLES = 20 * FRAME_SAMPLES
STRAIGHT = {"phone": 0.0, "mu_law": 0.0, "dropped": 0.0}
"""Of `Line`: what is heard is not changed any more."""


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
    loud = (-10.0, -10.0)
    line = Line(quiet=0, babble=0, echo=0, **STRAIGHT, hiss_dbfs=loud, noisy_dbfs=loud)
    heard, clean = line(caller, torch.zeros_like(caller), _chance())
    ratio = speech_level(clean)[:, 0] - 20 * torch.log10((heard - clean).std(1))
    least, most = line.least_ratio_db
    assert (ratio > least - 0.7).all() and (ratio < most + 0.7).all()
    assert ratio.std() > 1


def test_hiss_is_there_when_no_one_speaks() -> None:
    nothing = torch.zeros(4, SAMPLES)
    line = Line(quiet=0, **STRAIGHT, noisy=0, hiss_dbfs=(-33.0, -33.0))
    heard, clean = line(nothing, nothing, _chance())
    assert clean.abs().max() == 0
    assert 20 * torch.log10(heard.std(1)) == pytest.approx(-33, abs=0.5)


def test_a_quarter_of_the_rows_is_noisy_and_half_of_those_nearly_white() -> None:
    nothing = torch.zeros(400, 2 * FRAME_SAMPLES)
    heard, _ = Line(quiet=0, **STRAIGHT)(nothing, nothing, _chance())
    dbfs = 20 * torch.log10(heard.std(1))
    loud = dbfs > -42
    assert dbfs.max() < -27 and 0.2 < loud.float().mean() < 0.45
    power = torch.fft.rfft(heard[loud]).abs().square()
    half = power.shape[1] // 2
    tilt = 10 * torch.log10(power[:, 1:half].mean(1) / power[:, half:].mean(1))
    assert 0.3 < (tilt < 1.5).float().mean() < 0.8


def test_a_telephone_call_is_what_the_evaluation_takes_for_one() -> None:
    pcm = 0.1 * torch.randn(2, SAMPLES, generator=_chance(3))
    edge = torch.full((2, 1), 3_600.0)
    brought = by_phone(pcm, edge)
    inner = slice(500, -500)
    for row, heard in zip(pcm.numpy(), brought.numpy(), strict=True):
        assert np.corrcoef(telephone(row)[inner], heard[inner])[0, 1] > 0.97
        spectrum = np.abs(np.fft.rfft(heard)) ** 2
        above = np.fft.rfftfreq(len(heard), 1 / 24_000) > 4_000
        assert spectrum[above].sum() < 1e-6 * spectrum.sum()
    # And in µ-law: the steps of loud sounds are heard.
    quiet = by_phone(pcm * 1e-3, edge) * 1e3
    assert not torch.allclose(quiet, brought, atol=1e-3)


def test_a_call_by_phone_is_narrow_and_only_noise_behind_it_is_wide() -> None:
    caller = _speech(40)
    line = Line(phone=1, telephone=0, mu_law=0, dropped=0, babble=0, echo=0, quiet=0, room=0)
    heard, clean = line(caller, torch.zeros_like(caller), _chance())
    hertz = torch.fft.rfftfreq(SAMPLES, 1 / 24_000)
    wide = torch.fft.rfft(heard).abs().square()[:, hertz > 4_100].sum(1)
    assert (torch.fft.rfft(clean).abs()[:, hertz > 4_100] < 1e-2).all()
    assert 0.25 < (wide < 1e-3).float().mean() < 0.75


def test_other_people_stay_below_the_caller() -> None:
    caller = _speech(6)
    line = Line(quiet=1, babble=1, echo=0, **STRAIGHT, room=0, clipped=0)
    heard, clean = line(caller, torch.zeros_like(caller), _chance())
    apart = speech_level(clean) - speech_level(heard - clean)
    assert (apart > line.babble_below_db[0] - 1).all()


def test_the_agents_echo_comes_late_and_low() -> None:
    agent = torch.zeros(2, SAMPLES)
    agent[:, 0] = 1
    line = Line(quiet=1, babble=0, echo=1, **STRAIGHT)
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
