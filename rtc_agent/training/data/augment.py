"""The way from a caller's mouth to the agent's ear, for whole batches on whatever device.

Level, colour and room of the place; its noise: other people, the agent's own echo, hiss; then the
line: a telephone call, band and µ-law by themselves, lost packets. Rows differ, and each part
touches only some of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.training.data.batch import SAMPLE_RATE

_MU = 255.0
_BANDS = 9
"""Of the random colour, evenly spread over the octaves from 50 Hz on."""
_LOWEST_HZ = 50.0
_ROOM = SAMPLE_RATE * 2 // 5
"""Samples of a room's answer."""
_PHONE_RATE = 8_000
_PHONE_EDGE_HZ = (3_300.0, 3_900.0)
"""Where a telephone's filter begins to fall; what it has fallen to at 4 kHz is nothing."""
_NEARLY_WHITE, _BROWN = 0.12, 1.1
"""Exponents of the hiss: how steeply it falls with the frequency."""
_SPOKEN_DBFS = -58.0
"""A frame louder than this counts as speech when a row's level is measured."""


@dataclass(frozen=True, slots=True)
class Line:
    """`batch.Augment`: how often each thing happens, and how much of it. Levels in dB."""

    colour_db: float = 4.5
    room: float = 0.25
    phone: float = 0.2
    """Telephone calls: at 8 kHz and in µ-law."""
    telephone: float = 0.08
    """The telephone's band alone."""
    mu_law: float = 0.06
    """µ-law alone, of the whole band."""
    quiet: float = 0.15
    """Rows without any hiss."""
    hiss_dbfs: tuple[float, float] = (-80.0, -34.0)
    noisy: float = 0.25
    """Rows of louder hiss, half of it nearly white."""
    noisy_dbfs: tuple[float, float] = (-42.0, -28.0)
    least_ratio_db: tuple[float, float] = (5.0, 15.0)
    """Of speech over hiss: what is drowned cannot be answered. Drawn, so that not all quiet callers
    are nearly drowned in loud places."""
    babble: float = 0.12
    babble_below_db: tuple[float, float] = (14.0, 30.0)
    """How far the other people are below the caller."""
    echo: float = 0.25
    echo_db: tuple[float, float] = (-50.0, -26.0)
    clipped: float = 0.03
    dropped: float = 0.05
    """Rows in which packets are lost."""

    def __call__(
        self, caller: Tensor, agent: Tensor, chance: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """See `batch.Augment`."""
        draw = _Draw(caller, chance)
        clean = _coloured(caller, draw, self.colour_db, draw.some(self.telephone))
        clean = _roomy(clean, draw, draw.some(self.room))
        louder = torch.where(draw.some(self.clipped), draw.between(4, 14), 0.0)
        clean = (clean * _gain(louder)).clamp(-1, 1)
        level = speech_level(clean)
        heard = clean + self._people(clean, level, draw)
        heard = heard + self._echo(agent, draw)
        hiss = self._hiss(heard, level, draw)
        # The place's own goes through the telephone too; that of the line behind it does not.
        place = draw.some(0.5)
        heard = heard + torch.where(place, hiss, 0.0)
        phone, edge = draw.some(self.phone), draw.between(*_PHONE_EDGE_HZ)
        heard = torch.where(phone, by_phone(heard, edge), heard)
        clean = torch.where(phone, _narrow_band(torch.fft.rfft(clean), edge, clean), clean)
        heard = heard + torch.where(place, 0.0, hiss)
        heard = torch.where(draw.some(self.mu_law), mu_law(heard), heard)
        heard = torch.where(draw.some(self.dropped), _with_losses(heard, draw), heard)
        return heard.clamp(-1, 1), clean

    def _people(self, clean: Tensor, level: Tensor, draw: _Draw) -> Tensor:
        """Other rows' callers, several at once, far below this row's own."""
        n, samples = clean.shape
        others = torch.zeros_like(clean)
        if n > 1:
            for apart in range(1, min(n, 5)):
                others += clean.roll((apart, samples * apart // 6), (0, 1))
        below = draw.between(*self.babble_below_db)
        wanted = _gain(level.clamp(min=-45) - below - speech_level(others))
        return torch.where(draw.some(self.babble), others * wanted, 0.0)

    def _echo(self, agent: Tensor, draw: _Draw) -> Tensor:
        late = int(draw.whole(800, 6000))
        echo = F.pad(agent, (late, 0))[:, : agent.shape[1]]
        return torch.where(draw.some(self.echo), echo * _gain(draw.between(*self.echo_db)), 0.0)

    def _hiss(self, like: Tensor, level: Tensor, draw: _Draw) -> Tensor:
        """Noise of a random colour, from white to brown."""
        n, samples = like.shape
        spectrum = torch.fft.rfft(draw.normal(n, samples))
        rank = torch.arange(1, spectrum.shape[1] + 1, device=like.device)
        noisy = draw.some(self.noisy)
        steepest = torch.where(noisy & draw.some(0.5), _NEARLY_WHITE, _BROWN)
        noise = torch.fft.irfft(spectrum * rank ** -(steepest * draw.uniform()), n=samples)
        noise = noise / noise.std(1, keepdim=True).clamp(min=1e-9)
        lowest, highest = self.hiss_dbfs
        dbfs = lowest + (highest - lowest) * draw.uniform() ** 1.3
        dbfs = torch.where(noisy, draw.between(*self.noisy_dbfs), dbfs)
        ratio = draw.between(*self.least_ratio_db)
        drowning = torch.where(level > -80, level - ratio, math.inf)
        return torch.where(draw.some(self.quiet), 0.0, noise * _gain(torch.minimum(dbfs, drowning)))


def speech_level(pcm: Tensor) -> Tensor:
    """[n, 1] dBFS: the power mean over a row's frames that hold speech; −100 where none does."""
    frames = pcm[:, : pcm.shape[1] // FRAME_SAMPLES * FRAME_SAMPLES]
    power = frames.unflatten(1, (-1, FRAME_SAMPLES)).square().mean(2)
    spoken = power > 10 ** (_SPOKEN_DBFS / 10)
    mean = (power * spoken).sum(1, keepdim=True) / spoken.sum(1, keepdim=True).clamp(min=1)
    return 10 * torch.log10(mean.clamp(min=1e-10))


def mu_law(pcm: Tensor) -> Tensor:
    """What 8 bits of G.711 µ-law leave, at any rate."""
    pressed = pcm.clamp(-1, 1)
    pressed = pressed.sign() * torch.log1p(_MU * pressed.abs()) / math.log1p(_MU)
    kept = torch.round(pressed * 127) / 127
    return kept.sign() * torch.expm1(kept.abs() * math.log1p(_MU)) / _MU


def by_phone(pcm: Tensor, edge_hz: Tensor) -> Tensor:
    """What a telephone call brings: 8,000 samples a second in µ-law.

    Args:
        pcm: [n, samples], a multiple of three.
        edge_hz: [n, 1] where the filters before and behind begin to fall.
    """
    times = SAMPLE_RATE // _PHONE_RATE
    sent = mu_law(_narrow_band(torch.fft.rfft(pcm), edge_hz, pcm)[:, ::times])
    return _narrow_band(torch.fft.rfft(sent) * times, edge_hz, pcm)


def _narrow_band(spectrum: Tensor, edge_hz: Tensor, like: Tensor) -> Tensor:
    """A spectrum from 0 Hz on, cut off towards 4 kHz, as sound of as many samples as `like`."""
    samples = like.shape[1]
    bins = samples * _PHONE_RATE // SAMPLE_RATE // 2 + 1
    hertz = torch.arange(bins, device=like.device) * (SAMPLE_RATE / samples)
    fallen = ((hertz - edge_hz) / (_PHONE_RATE / 2 - edge_hz)).clamp(0, 1)
    kept = spectrum[:, :bins] * torch.cos(fallen * (math.pi / 2)) ** 2
    return torch.fft.irfft(kept, n=samples)


class _Draw:
    """Chance for each row of a batch, on its device."""

    def __init__(self, like: Tensor, chance: torch.Generator) -> None:
        self._rows, self._device, self._chance = len(like), like.device, chance

    def uniform(self, width: int = 1) -> Tensor:
        return torch.rand((self._rows, width), device=self._device, generator=self._chance)

    def between(self, low: float, high: float, width: int = 1) -> Tensor:
        return low + (high - low) * self.uniform(width)

    def some(self, share: float) -> Tensor:
        """[n, 1] bool: whether this happens to the row."""
        return self.uniform() < share

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, device=self._device, generator=self._chance)

    def whole(self, low: int, high: int) -> Tensor:
        """One number for the whole batch."""
        return torch.randint(low, high, (), device=self._device, generator=self._chance)


def _gain(db: Tensor) -> Tensor:
    return 10 ** (db / 20)


def _coloured(pcm: Tensor, draw: _Draw, strength_db: float, telephone: Tensor) -> Tensor:
    """A random equaliser, and for some rows the telephone's 300–3400 Hz."""
    samples = pcm.shape[1]
    hertz = torch.fft.rfftfreq(samples, 1 / SAMPLE_RATE, device=pcm.device)
    tilt = draw.normal(len(pcm), 1) * 3 * torch.linspace(-1, 1, _BANDS, device=pcm.device)
    curve = tilt + draw.normal(len(pcm), _BANDS) * strength_db * 0.6
    octaves = math.log2(SAMPLE_RATE / 2 / _LOWEST_HZ)
    fine = F.interpolate(curve[:, None], size=256, mode="linear", align_corners=True)[:, 0]
    at = (torch.log2(hertz.clamp(min=_LOWEST_HZ) / _LOWEST_HZ) / octaves * 255).long()
    shape = _gain(fine)[:, at]
    band = 1 / (1 + (260 / hertz.clamp(min=1)) ** 6) / (1 + (hertz / 3450) ** 16)
    shape = torch.where(telephone, shape * band, shape)
    return torch.fft.irfft(torch.fft.rfft(pcm) * shape, n=samples)


def _roomy(pcm: Tensor, draw: _Draw, roomy: Tensor) -> Tensor:
    """Reverberation: the direct sound and a tail of decaying noise."""
    samples = pcm.shape[1]
    seconds = torch.arange(_ROOM, device=pcm.device) / SAMPLE_RATE
    tail = draw.normal(len(pcm), _ROOM) * torch.exp(-6.9 * seconds / draw.between(0.06, 0.5))
    tail[:, :60] = 0
    tail = tail / tail.norm(dim=1, keepdim=True) * draw.between(0.1, 0.7) * roomy
    tail[:, 0] = 1
    whole = samples + _ROOM
    spectrum = torch.fft.rfft(pcm, n=whole) * torch.fft.rfft(tail, n=whole)
    return torch.fft.irfft(spectrum, n=whole)[:, :samples]


def _with_losses(pcm: Tensor, draw: _Draw) -> Tensor:
    """Packets of 20 ms missing here and there, as silence."""
    packet = SAMPLE_RATE // 50
    kept = draw.uniform(-(-pcm.shape[1] // packet)) > 0.02
    return pcm * kept.repeat_interleave(packet, 1)[:, : pcm.shape[1]]
