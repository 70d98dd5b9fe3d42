"""Teaching the codec: what a waveform is made of, in eight numbers a frame.

Without quantisation first, until the latents carry the sound; then with it, the codebooks placed by
k-means. Losses are spectral alone. Callers are learned without their noise: whoever hears a code
should hear the words in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.model.mimi_weights import assemble_mimi
from rtc_agent.model.spec import CODEBOOKS, MimiSpec
from rtc_agent.training.budget import cosine
from rtc_agent.training.clips import ClipBank
from rtc_agent.training.codec_init import new_codec
from rtc_agent.training.codec_net import latents, waveforms
from rtc_agent.training.data.batch import AgentBook, Augment, CallerPool
from rtc_agent.training.keyed import decay_groups
from rtc_agent.training.quantizer import TrainedQuantizer
from rtc_agent.training.spectra import MelDistance
from rtc_agent.training.stage import Findings

_MEL, _WAVE, _COMMITMENT = 10.0, 3.0, 0.15
"""Weights of the losses."""
_UNQUANTISED = 0.13
"""Part of the stage before the codebooks are placed."""
_LATENT_SIZE = 1e-3
"""Weight of the latents' mean square until then, which keeps them in hand."""
_SKIP = 0.2
"""Part of the rows that skip quantisation afterwards: a straight way for gradients."""
_GRACE = 0.05
"""Part of the stage after a change in which alarms are not raised."""
_LEAST_SPREAD = 0.02
"""Standard deviation of latents below which they have collapsed; they begin at about 0.5."""
_LEAST_USE = 1 / 16
"""Part of a codebook that must be in use, by its perplexity."""


@dataclass(frozen=True, slots=True)
class CodecRun:
    """Sizes of the codec's training."""

    agent_crops: int = 14
    caller_crops: int = 12
    frames: int = 20
    """Of a crop: 1.6 s."""
    peak: float = 1e-3
    """Learning rate."""
    warm_up: int = 100
    bank: int = 4_000
    """Callers' utterances at hand at once."""
    bank_steps: int = 400
    """Steps after which others are drawn."""
    placing: int = 12
    """Batches whose latents the codebooks are placed among."""


class CodecTrainer:
    """`Trainer` of the whole codec."""

    name = "codec"

    def __init__(
        self,
        spec: MimiSpec,
        book: AgentBook,
        pool: CallerPool,
        augment: Augment,
        device: torch.device,
        run: CodecRun = CodecRun(),
        seed: int = 0,
    ) -> None:
        self._spec, self._run, self._seed, self._device = spec, run, seed, device
        self._pool, self._augment = pool, augment
        self._chance = torch.Generator(device).manual_seed(seed + 1)
        self.tensors = new_codec(spec, seed).to(device)
        self._semantic = TrainedQuantizer(self.tensors, "rvq_first", 1, self._chance)
        self._acoustic = TrainedQuantizer(self.tensors, "rvq_rest", CODEBOOKS - 1, self._chance)
        self._optimizer = torch.optim.AdamW(
            decay_groups(self.tensors, 1e-4), lr=run.peak, betas=(0.85, 0.98)
        )
        self._distance = MelDistance(device)
        rng = np.random.default_rng(seed)
        self._agent = ClipBank((s.samples for s in book.sentences), rng).to(device)
        self._callers = self._draw_bank(0)
        self._step = 0
        self._placed = False
        self._placed_at = 0.0
        held_out = torch.Generator(device).manual_seed(seed + 2)
        self._validation = self._batch(held_out)

    def step(self, progress: float) -> None:
        """As `Trainer.step`."""
        if self._step and self._step % self._run.bank_steps == 0:
            self._callers = self._draw_bank(self._step // self._run.bank_steps)
        heard, wanted = self._batch(self._chance)
        if not self._placed and progress >= _UNQUANTISED:
            self._place(progress)
        weights = assemble_mimi(self._spec, self.tensors.fetch)
        latent = latents(self._spec, weights, heard)
        straight = self._semantic.bypass(latent) + self._acoustic.bypass(latent)
        if self._placed:
            halves = self._semantic(latent), self._acoustic(latent)
            commitment = halves[0].commitment + halves[1].commitment
            skip = self._draw(len(heard), 1, 1) < _SKIP
            passed = torch.where(skip, straight, halves[0].output + halves[1].output)
            inner = _COMMITMENT * commitment
        else:
            passed = straight
            inner = _LATENT_SIZE * latent.square().mean()
        made = waveforms(self._spec, weights, passed)
        apart = self._distance(made, wanted).mean()
        loss = _MEL * apart + _WAVE * (made - wanted).abs().mean() + inner
        factor = cosine(progress, self._step, warm_up=self._run.warm_up, last=0.03)
        for group in self._optimizer.param_groups:
            group["lr"] = self._run.peak * factor
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.tensors.parameters(), 1.0)
        self._optimizer.step()
        self._step += 1

    @torch.no_grad()
    def findings(self, progress: float) -> Findings:
        """As `Trainer.findings`: by codes, once there are any."""
        heard, wanted = self._validation
        weights = assemble_mimi(self._spec, self.tensors.fetch)
        latent = latents(self._spec, weights, heard)
        figures: dict[str, float | list[float]] = {}
        alarms = []
        spread = float(latent.std((0, 1)).mean())
        figures["latents"] = spread
        if spread < _LEAST_SPREAD:
            alarms.append("the latents have collapsed")
        passed = self._semantic.bypass(latent) + self._acoustic.bypass(latent)
        if self._placed:
            halves = self._semantic(latent, learn=False), self._acoustic(latent, learn=False)
            passed = halves[0].output + halves[1].output
            figures["commitment"] = [float(half.commitment) for half in halves]
            in_use = [*self._semantic.perplexities(), *self._acoustic.perplexities()]
            figures["perplexity"] = in_use
            settled = progress > self._placed_at + _GRACE
            if settled and min(in_use) < _LEAST_USE * self._spec.bins:
                alarms.append("a codebook has collapsed")
        apart = self._distance(waveforms(self._spec, weights, passed), wanted)
        agent = self._run.agent_crops
        figures["mel_agent"] = float(apart[:agent].mean())
        if self._run.caller_crops:
            figures["mel_callers"] = float(apart[agent:].mean())
        return Findings(figures, alarms)

    def state(self) -> dict[str, Any]:
        """As `Trainer.state`."""
        return {
            "tensors": self.tensors.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "chance": self._chance.get_state(),
            "step": self._step,
            "placed": self._placed,
            "placed_at": self._placed_at,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """As `Trainer.restore`."""
        self.tensors.load_state_dict(state["tensors"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._chance.set_state(state["chance"])
        self._step = state["step"]
        self._placed = state["placed"]
        self._placed_at = state["placed_at"]
        self._callers = self._draw_bank(max(0, self._step - 1) // self._run.bank_steps)

    def _batch(self, chance: torch.Generator) -> tuple[Tensor, Tensor]:
        """What the encoder hears and what the decoder is to make of it, [crops, samples]."""
        run = self._run
        samples = run.frames * FRAME_SAMPLES
        spoken = self._agent.crops(run.agent_crops, samples, chance)
        spoken = spoken * self._level(run.agent_crops, -3, 1, chance)
        if not run.caller_crops:
            return spoken, spoken
        dry = self._callers.crops(run.caller_crops, samples, chance, speeds=(0.86, 1.16))
        dry = dry * self._level(run.caller_crops, -22, -2, chance)
        heard, clean = self._augment(dry, torch.zeros_like(dry), chance)
        return torch.cat((spoken, heard)), torch.cat((spoken, clean))

    def _place(self, progress: float) -> None:
        weights = assemble_mimi(self._spec, self.tensors.fetch)
        with torch.no_grad():
            heard = [
                latents(self._spec, weights, self._batch(self._chance)[0]).flatten(0, 1)
                for _ in range(self._run.placing)
            ]
        for half in (self._semantic, self._acoustic):
            half.initialise(torch.cat(heard), len(heard[0]))
        self._placed, self._placed_at = True, progress

    def _draw_bank(self, number: int) -> ClipBank:
        """Callers' utterances, the same for a number and what the pool holds by then."""
        rng = np.random.default_rng((self._seed, number))
        wanted = self._run.bank if self._run.caller_crops else 0
        clips = (self._pool.draw(rng).samples for _ in range(wanted))
        return ClipBank(clips, rng).to(self._device)

    def _draw(self, *shape: int) -> Tensor:
        return torch.rand(shape, device=self._device, generator=self._chance)

    def _level(self, n: int, lowest: float, highest: float, chance: torch.Generator) -> Tensor:
        """Factors [n, 1] of so many dB."""
        drawn = torch.rand((n, 1), device=self._device, generator=chance)
        return 10 ** ((lowest + (highest - lowest) * drawn) / 20)
