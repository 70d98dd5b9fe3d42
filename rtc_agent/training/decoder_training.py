"""Fine-tuning the decoder on the agent's voice, against discriminators.

The encoder and the codebooks stay as they are, so the language model may be trained meanwhile.
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
from rtc_agent.model.spec import MimiSpec
from rtc_agent.training.budget import cosine
from rtc_agent.training.clips import ClipBank
from rtc_agent.training.codec_init import is_codebook
from rtc_agent.training.codec_net import OfflineCodec, waveforms
from rtc_agent.training.data.batch import AgentBook
from rtc_agent.training.discriminator import Discriminators
from rtc_agent.training.keyed import KeyedTensors
from rtc_agent.training.spectra import MelDistance
from rtc_agent.training.stage import Findings

_MEL, _WAVE, _FALSENESS, _FEATURES = 10.0, 2.0, 0.4, 1.5
"""Weights of the losses."""
_ALONE = 0.12
"""Part of the stage before the discriminators begin."""
_FADE_IN = 0.1
"""Part of the stage in which their losses come up."""
_WRONG_CODES = 0.01
"""Part of the acoustic codes that are drawn anew: a language model errs too."""
_SETTLED = 0.3
"""Part of the stage by which the discriminators' first disturbance is over."""
_WORSE = 1.5
"""How much farther from the voice than at the start is no fine-tuning any more."""


@dataclass(frozen=True, slots=True)
class DecoderRun:
    """Sizes of the decoder's fine-tuning."""

    crops: int = 20
    frames: int = 20
    peak: float = 5e-4
    judges_peak: float = 3e-4
    warm_up: int = 100
    channels: int = 32
    """Of the discriminators."""


def is_decoding(key: str) -> bool:
    """Whether a key's tensor is only used after the quantiser."""
    return key.startswith(("decoder", "upsample."))


class DecoderTrainer:
    """`Trainer` of the decoder.

    Args:
        codec: the trained codec's tensors by key.
    """

    name = "decoder"

    def __init__(
        self,
        spec: MimiSpec,
        codec: Mapping[str, Tensor],
        book: AgentBook,
        device: torch.device,
        run: DecoderRun = DecoderRun(),
        seed: int = 0,
    ) -> None:
        self._spec, self._run, self._device = spec, run, device
        self._chance = torch.Generator(device).manual_seed(seed + 11)
        self.tensors = KeyedTensors(codec, fixed=is_codebook).to(device)
        for parameter in self.tensors.trained(lambda key: not is_decoding(key)):
            parameter.requires_grad_(False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + 12)
            self._judges = Discriminators(run.channels).to(device)
        self._trained = self.tensors.trained(is_decoding)
        self._optimizer = torch.optim.AdamW(
            self._trained, lr=run.peak, betas=(0.8, 0.95), weight_decay=1e-4
        )
        self._judging = torch.optim.AdamW(
            self._judges.parameters(), lr=run.judges_peak, betas=(0.8, 0.95)
        )
        rng = np.random.default_rng(seed)
        self._agent = ClipBank((s.samples for s in book.sentences), rng).to(device)
        self._distance = MelDistance(device)
        self._step = 0
        held_out = torch.Generator(device).manual_seed(seed + 13)
        self._validation = self._crops(held_out)
        self._began = float(self._validate())

    def step(self, progress: float) -> None:
        """As `Trainer.step`."""
        factor = cosine(progress, self._step, warm_up=self._run.warm_up, last=0.04)
        for optimizer, peak in (
            (self._optimizer, self._run.peak),
            (self._judging, self._run.judges_peak),
        ):
            for group in optimizer.param_groups:
                group["lr"] = peak * factor
        wanted = self._crops(self._chance)
        weights = assemble_mimi(self._spec, self.tensors.fetch)
        codec = OfflineCodec(self._spec, weights, self._run.crops)
        with torch.no_grad():
            passed = codec.quantised(self._with_errors(codec.encode(wanted)))
        made = waveforms(self._spec, weights, passed)
        apart = self._distance(made, wanted).mean()
        loss = _MEL * apart + _WAVE * (made - wanted).abs().mean()
        if progress >= _ALONE:
            loss = loss + self._judged(wanted, made) * min(1.0, (progress - _ALONE) / _FADE_IN)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
        self._optimizer.step()
        self._step += 1

    def findings(self, progress: float) -> Findings:
        """As `Trainer.findings`."""
        apart = float(self._validate())
        worse = progress > _SETTLED and apart > _WORSE * self._began
        return Findings(
            {"mel_agent": apart, "mel_at_start": self._began},
            ["the decoder is getting worse"] if worse else [],
        )

    def state(self) -> dict[str, Any]:
        """As `Trainer.state`."""
        return {
            "tensors": self.tensors.state_dict(),
            "judges": self._judges.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "judging": self._judging.state_dict(),
            "chance": self._chance.get_state(),
            "step": self._step,
            "began": self._began,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """As `Trainer.restore`."""
        self.tensors.load_state_dict(state["tensors"])
        self._judges.load_state_dict(state["judges"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._judging.load_state_dict(state["judging"])
        self._chance.set_state(state["chance"])
        self._step = state["step"]
        self._began = state["began"]

    def _judged(self, wanted: Tensor, made: Tensor) -> Tensor:
        """Teach the discriminators, and say what they make of the decoder's work."""
        with torch.autocast(self._device.type, torch.bfloat16, self._device.type == "cuda"):
            told_apart = self._judges.loss(wanted, made)
            self._judging.zero_grad(set_to_none=True)
            told_apart.backward()
            torch.nn.utils.clip_grad_norm_(self._judges.parameters(), 5.0)
            self._judging.step()
            falseness, features = self._judges.judge(wanted, made)
        return (_FALSENESS * falseness + _FEATURES * features).float()

    def _crops(self, chance: torch.Generator) -> Tensor:
        return self._agent.crops(self._run.crops, self._run.frames * FRAME_SAMPLES, chance)

    def _with_errors(self, codes: Tensor) -> Tensor:
        drawn = torch.rand(codes.shape, device=self._device, generator=self._chance)
        wrong = drawn < _WRONG_CODES
        # A wrong semantic code is another sound; there is nothing to learn from it.
        wrong[..., 0] = False
        other = torch.randint(
            self._spec.bins, codes.shape, device=self._device, generator=self._chance
        )
        return torch.where(wrong, other, codes)

    @torch.no_grad()
    def _validate(self) -> Tensor:
        weights = assemble_mimi(self._spec, self.tensors.fetch)
        codec = OfflineCodec(self._spec, weights, self._run.crops)
        made = codec.decode(codec.encode(self._validation))
        return self._distance(made, self._validation).mean()
