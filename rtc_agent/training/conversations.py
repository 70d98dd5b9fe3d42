"""Conversations as the language model sees them: encoded once, kept on the device, drawn at random.

The codes come from the codec by whole recordings, prompts are laid out as at run time, and what
belongs to the auxiliary losses is kept beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.model.spec import AGENT_ROWS, COLUMN_ROWS, TEXT_ROW, USER_ROWS, ModelSpec
from rtc_agent.training.codec_net import OfflineCodec
from rtc_agent.training.data.batch import IGNORE, AgentBook, Augment, ConversationBatch

_REFERENCE_SECONDS = 4
"""Of silence or of a tone, at the end of which the codec's codes for it are taken."""
_SINE_HZ = 440.0
_SINE_LEVEL = 0.5


_LOOKED_UP = ("words", "spans", "span_words")


@dataclass(slots=True)
class Encoded:
    """n conversations of `frames` frames, ready for training.

    What is computed with is on the codec's device; `words`, `spans` and `span_words`, which only
    say where to look, are on the CPU, where looking costs no waiting.
    """

    frames: Tensor
    """[n, 17, frames] int16 tokens by frame: text, agent, user."""
    text_weight: Tensor
    """[n, frames] float16 weight of the text loss where that frame's text is predicted."""
    speaking: Tensor
    """[n, frames] bool: the agent is heard."""
    prompt_frames: Tensor
    """[n] int64"""
    reply: Tensor
    """[n, frames] int16 reply class, IGNORE where there is none."""
    words: Tensor
    """[n, most] int16 ids of all that is said to the agent; IGNORE past the end."""
    spans: Tensor
    """[n, utterances, 2] int16 first frame of each utterance and the frame after its last."""
    span_words: Tensor
    """[n, utterances] int16 how many of `words` each has; 0 past the end."""

    def __len__(self) -> int:
        return len(self.frames)


class Encoder:
    """Batches of the simulator to encoded conversations, on the codec's device."""

    def __init__(
        self, spec: ModelSpec, codec: OfflineCodec, book: AgentBook, augment: Augment
    ) -> None:
        self._spec, self._codec, self._augment = spec, codec, augment
        self._device = codec.weights.device
        self._book = book
        self._voices: dict[int, Tensor] = {}
        self.silence, self.sine = reference_codes(codec)

    @torch.no_grad()
    def encode(
        self, batch: ConversationBatch, chance: torch.Generator, clean: bool = False
    ) -> Encoded:
        """Add room, line and noise, unless it is to stay clean, and encode."""
        looked_up = batch.words, batch.spans, batch.span_words
        prompts, voices, clips = (
            t.tolist() for t in (batch.prompt_frames, batch.voice, batch.voice_frames)
        )
        batch = batch.to(self._device)
        heard = batch.caller
        if not clean:
            heard, _ = self._augment(heard, batch.agent, chance)
        user, agent = (self._codec.encode(pcm).transpose(1, 2) for pcm in (heard, batch.agent))
        n, total = batch.text.shape
        frames = torch.empty((n, COLUMN_ROWS, total), dtype=torch.int16, device=self._device)
        frames[:, TEXT_ROW] = batch.text
        for row, (prompt, voice, clip) in enumerate(zip(prompts, voices, clips, strict=True)):
            live = total - prompt
            frames[row, AGENT_ROWS, prompt:] = agent[row, :, :live]
            frames[row, USER_ROWS, prompt:] = user[row, :, :live]
            if prompt:
                frames[row, AGENT_ROWS, :prompt] = self.silence[:, None]
                frames[row, USER_ROWS, :prompt] = self.sine[:, None]
            if voice != IGNORE:
                frames[row, AGENT_ROWS, :clip] = self._voice(voice)[:, :clip]
        words, spans, counts = (t.cpu().short() for t in looked_up)
        return Encoded(
            frames=frames,
            text_weight=batch.text_weight.half(),
            speaking=batch.speaking,
            prompt_frames=batch.prompt_frames,
            reply=batch.reply.short(),
            words=words,
            spans=spans,
            span_words=counts,
        )

    def _voice(self, index: int) -> Tensor:
        """[8, frames] codes of one of the agent's sentences, by itself."""
        if index not in self._voices:
            samples = torch.from_numpy(self._book.sentences[index].samples.astype(np.float32))
            whole = torch.nn.functional.pad(samples, (0, -len(samples) % FRAME_SAMPLES))
            codes = self._codec.encode(whole[None].to(self._device))
            self._voices[index] = codes[0].t()
        return self._voices[index]


def reference_codes(codec: OfflineCodec) -> tuple[Tensor, Tensor]:
    """[8] codes of digital silence and [8] of a 440 Hz sine, as this codec settles on them."""
    device = codec.weights.device
    samples = int(_REFERENCE_SECONDS * 12.5) * FRAME_SAMPLES
    time = torch.arange(samples, device=device) / 24_000
    sine = _SINE_LEVEL * torch.sin(2 * torch.pi * _SINE_HZ * time)
    codes = codec.encode(torch.stack((torch.zeros_like(sine), sine)))[:, -1]
    return codes[0], codes[1]


class ConversationStore:
    """The latest conversations, as many as fit."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: dict[str, Tensor] = {}
        self.added = 0
        """Conversations that were ever put in."""

    def __len__(self) -> int:
        return min(self.added, self._capacity)

    def add(self, fresh: Encoded) -> None:
        """Put in new ones, the oldest going where there is no room."""
        for name in Encoded.__slots__:
            value = getattr(fresh, name)
            held = self._held.get(name)
            if held is None:
                held = value.new_zeros((self._capacity, *value.shape[1:]))
            # Callers say more or less in one batch than in another.
            held, value = _same_length(held, value, name)
            at = self.added % self._capacity
            room = self._capacity - at
            held[at : at + len(value)] = value[:room]
            held[: len(value[room:])] = value[room:]
            self._held[name] = held
        self.added += len(fresh)

    def draw(self, n: int, chance: torch.Generator) -> Encoded:
        """n of them, each any; `chance` is the CPU's."""
        here = torch.randint(len(self), (n,), generator=chance)
        there = onto(self._held["frames"].device, here)
        drawn = {
            name: held[here if name in _LOOKED_UP else there] for name, held in self._held.items()
        }
        return Encoded(**drawn)

    def state(self) -> dict[str, Any]:
        held = {name: tensor[: len(self)].cpu() for name, tensor in self._held.items()}
        return {"held": held, "added": self.added}

    def restore(self, state: Mapping[str, Any], device: torch.device) -> None:
        self.added = state["added"]
        self._held = {}
        for name, tensor in state["held"].items():
            place = torch.device("cpu") if name in _LOOKED_UP else device
            held = tensor.new_zeros((self._capacity, *tensor.shape[1:]), device=place)
            held[: len(tensor)] = tensor.to(place)
            self._held[name] = held


def onto(device: torch.device, tensor: Tensor) -> Tensor:
    """A tensor of the CPU's on a device, without waiting for what that still has to do."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _same_length(held: Tensor, value: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Both with as many entries a row, the shorter filled up with nothing."""
    if held.ndim == 1 or held.shape[1] == value.shape[1]:
        return held, value
    longest = max(held.shape[1], value.shape[1])
    nothing = IGNORE if name in ("words", "spans") else 0

    def filled(tensor: Tensor) -> Tensor:
        out = tensor.new_full((len(tensor), longest, *tensor.shape[2:]), nothing)
        out[:, : tensor.shape[1]] = tensor
        return out

    return filled(held), filled(value)
