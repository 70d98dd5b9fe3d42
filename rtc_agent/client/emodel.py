"""The E-model: how a call is judged from its delay and loss (ITU-T G.107, 06/2015).

The rating R goes from 0 to 100; 93.2 is the best that the narrow-band model gives with its default
terminals. Names follow the Recommendation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a codec costs (ITU-T G.113, Appendix I)."""

    ie: float
    """Equipment impairment without loss."""
    bpl: float
    """Packet-loss robustness: the loss in percent at which half of what is left is gone."""


G711_PLC = Equipment(ie=0.0, bpl=25.1)
"""G.711 with concealment. Also taken for Opus, which G.113 does not list; Opus with in-band FEC
is better than that under loss, so its R is a lower bound."""
G711_NO_PLC = Equipment(ie=0.0, bpl=4.3)
G729A = Equipment(ie=11.0, bpl=19.0)


def rating(
    one_way_ms: float,
    loss_percent: float = 0.0,
    *,
    equipment: Equipment = G711_PLC,
    burst_ratio: float = 1.0,
    advantage: float = 0.0,
) -> float:
    """R for a mouth-to-ear delay and a packet loss, all else at the Recommendation's defaults.

    `burst_ratio` is the mean run of lost packets over that of independent loss. The talker's echo
    path is twice the one-way delay, with the default echo loudness rating of 65 dB.
    """
    if one_way_ms < 0 or not 0 <= loss_percent <= 100 or burst_ratio < 1:
        raise ValueError("a delay from 0 ms, a loss from 0 to 100 %, and a burst ratio from 1")
    r = (
        _signal_to_noise()
        - _simultaneous(one_way_ms)
        - _delay(one_way_ms)
        - _equipment(equipment, loss_percent, burst_ratio)
        + advantage
    )
    return min(100.0, max(0.0, r))


def mos(r: float) -> float:
    """The mean opinion score, 1 … 4.5, that goes with a rating (G.107, Annex B)."""
    if r <= 0:
        return 1.0
    if r >= 100:
        return 4.5
    # The cubic dips below 1 for R under 6.5; the scale does not.
    return max(1.0, 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6)


# Default values of G.107, Table 2 (dB unless said otherwise).
_SLR, _RLR, _STMR, _LSTR = 8.0, 2.0, 15.0, 18.0
_DS, _DR = 3.0, 3.0
_TELR, _WEPL = 65.0, 110.0
_NC, _NFOR, _PS, _PR = -70.0, -64.0, 35.0, 35.0
_QDU = 1.0


def _power_sum(*levels_db: float) -> float:
    return 10 * math.log10(math.fsum(10 ** (level / 10) for level in levels_db))


def _no() -> float:
    """Sum of noise powers at the 0 dBr point (G.107, 7.2)."""
    olr = _SLR + _RLR
    nos = _PS - _SLR - _DS - 100 + 0.004 * (_PS - olr - _DS - 14) ** 2
    pre = _PR + 10 * math.log10(1 + 10 ** ((10 - _LSTR) / 10))
    nor = _RLR - 121 + pre + 0.008 * (pre - 35) ** 2
    return _power_sum(_NC, nos, nor, _NFOR + _RLR)


def _signal_to_noise() -> float:
    return 15 - 1.5 * (_SLR + _no())


def _simultaneous(one_way_ms: float) -> float:
    """Impairments that come with the voice: loudness, side tone, quantising (7.3)."""
    xolr = _SLR + _RLR + 0.2 * (64 + _no() - _RLR)
    iolr: float = 20 * ((1 + (xolr / 8) ** 8) ** (1 / 8) - xolr / 8)
    stmro = -10 * math.log10(10 ** (-_STMR / 10) + math.exp(-one_way_ms / 4) * 10 ** (-_TELR / 10))
    ist: float = (
        12 * (1 + ((stmro - 13) / 6) ** 8) ** (1 / 8)
        - 28 * (1 + ((stmro + 1) / 19.4) ** 35) ** (1 / 35)
        - 13 * (1 + ((stmro - 3) / 33) ** 13) ** (1 / 13)
        + 29
    )
    q = 37 - 15 * math.log10(_QDU)
    g = 1.07 + 0.258 * q + 0.0602 * q**2
    y = (_signal_to_noise() - 100) / 15 + 46 / 8.4 - g / 9
    z = 46 / 30 - g / 40
    iq: float = 15 * math.log10(1 + 10**y + 10**z)
    return iolr + ist + iq


def _delay(one_way_ms: float) -> float:
    """Impairments by delay: talker echo, listener echo, and too long a delay as such (7.4)."""
    # Mean one-way delay of the echo path, round trip in the four-wire loop, absolute delay.
    t, tr, ta = one_way_ms, 2 * one_way_ms, one_way_ms
    idte: float = 0.0
    if t >= 1:
        terv = _TELR - 40 * math.log10((1 + t / 10) / (1 + t / 150)) + 6 * math.exp(-0.3 * t**2)
        echo: float = -1.5 * (_no() - _RLR) - (80 + 2.5 * (terv - 14))
        idte = (echo / 2 + math.sqrt(echo**2 / 4 + 100) - 1) * (1 - math.exp(-t))
    gap: float = _signal_to_noise() - 10.5 * (_WEPL + 7) * (tr + 1) ** -0.25
    idle = gap / 2 + math.sqrt(gap**2 / 4 + 169)
    idd: float = 0.0
    if ta > 100:
        x = math.log2(ta / 100)
        idd = 25 * ((1 + x**6) ** (1 / 6) - 3 * (1 + (x / 3) ** 6) ** (1 / 6) + 2)
    return idte + idle + idd


def _equipment(equipment: Equipment, loss_percent: float, burst_ratio: float) -> float:
    """Impairment by codec and packet loss (7.5)."""
    share = loss_percent / (loss_percent / burst_ratio + equipment.bpl)
    return equipment.ie + (95 - equipment.ie) * share
