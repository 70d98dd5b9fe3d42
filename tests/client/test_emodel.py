from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.client.emodel import G711_NO_PLC, G711_PLC, G729A, mos, rating


def test_default_terminals_rate_93_2() -> None:
    """G.107 gives R = 93.2 for its default values at no delay and no loss."""
    assert rating(0) == pytest.approx(93.2, abs=0.05)


@pytest.mark.parametrize(
    ("r", "score"), [(100, 4.5), (90, 4.34), (80, 4.03), (70, 3.60), (60, 3.10), (50, 2.58), (0, 1)]
)
def test_published_opinion_scores(r: float, score: float) -> None:
    """G.107 Annex B, table B.1: lower limits of the categories of user satisfaction."""
    assert mos(r) == pytest.approx(score, abs=0.01)


@pytest.mark.parametrize("one_way_ms", [25, 50, 75, 100, 150, 200, 250, 300])
def test_delay_agrees_with_the_published_fit(one_way_ms: float) -> None:
    """R. G. Cole and J. H. Rosenbluth, "Voice over IP performance monitoring" (2001), fitted
    Id = 0.024 d + 0.11 (d − 177.3) H(d − 177.3) to the E-model."""
    d = one_way_ms
    fit = 93.2 - 0.024 * d - 0.11 * max(0.0, d - 177.3)
    assert rating(d) == pytest.approx(fit, abs=1.0)


@pytest.mark.parametrize(
    ("equipment", "loss", "impairment"),
    [
        # Ie,eff = Ie + (95 − Ie) · Ppl / (Ppl + Bpl) with the constants of G.113 Appendix I.
        (G711_PLC, 5.0, 95 * 5 / 30.1),
        (G711_NO_PLC, 1.0, 95 * 1 / 5.3),
        (G729A, 0.0, 11.0),
        (G729A, 2.0, 11 + 84 * 2 / 21),
    ],
)
def test_codec_and_loss(equipment: object, loss: float, impairment: float) -> None:
    lost = rating(0) - rating(0, loss, equipment=equipment)  # type: ignore[arg-type]
    assert lost == pytest.approx(impairment, abs=1e-9)


def test_bursts_are_worse_than_single_losses() -> None:
    assert rating(0, 5, burst_ratio=2) < rating(0, 5)


@given(st.floats(0, 600), st.floats(0, 600), st.floats(0, 30), st.floats(0, 30))
def test_more_delay_or_loss_is_never_better(d1: float, d2: float, l1: float, l2: float) -> None:
    worse = rating(max(d1, d2), max(l1, l2))
    better = rating(min(d1, d2), min(l1, l2))
    # The Recommendation's side-tone term itself dips by under a tenth in the first milliseconds.
    assert worse <= better + 0.1


@given(st.floats(0, 100), st.floats(0, 100))
def test_opinion_follows_the_rating(r1: float, r2: float) -> None:
    low, high = sorted((r1, r2))
    assert 1 <= mos(low) <= mos(high) <= 4.5


def test_nonsense_is_refused() -> None:
    for arguments in ((-1, 0), (0, -1), (0, 101)):
        with pytest.raises(ValueError):
            rating(*arguments)
