"""The part of a language model's training step whose shapes never change, so that it can be
compiled as a whole: assembling the weights, both transformers, and all losses but the words'.

Nothing in it waits for the device: what is learned from is weighed, not picked out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtc_agent.model.spec import AGENT_ROWS, TEXT_ROW, LmSpec
from rtc_agent.model.weights import assemble_lm
from rtc_agent.training.data.batch import IGNORE
from rtc_agent.training.data.texts.intent import kind_of
from rtc_agent.training.keyed import KeyedTensors
from rtc_agent.training.lm_net import code_logits, contexts

_PAD_WEIGHT = 0.3
_LEARNED_SHARE = 9 / 16
"""Part of the positions whose codes are learned: all at which the agent speaks, two fifths in the
demo's conversations, and as many silent ones as make up the rest."""
_SILENT_WEIGHT = 0.5
_EPS = 1e-6


class AuxiliaryHeads(nn.Module):
    """What reads words off a middle layer, and the reply off the last."""

    def __init__(self, spec: LmSpec, replies: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.words = nn.Linear(spec.dim, spec.text_card)
            self.reply = nn.Linear(spec.dim, replies)

    def spelled(self, tapped: Tensor) -> Tensor:
        """[..., dim] of the middle layer to log-probabilities of pieces, PAD being none."""
        wide = tapped.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + _EPS)
        logits: Tensor = self.words(normed)
        return logits.log_softmax(-1)

    def carry(self, state: Mapping[str, Tensor], before: Sequence[str], now: Sequence[str]) -> None:
        """Go on from what was learned about other reply classes than there are now.

        A class that is new begins as the one it was a part of, `a:b` as `a`; any other, and all
        where there is not one row for each class before, as if nothing had been learned.
        """
        row = {name: i for i, name in enumerate(before)}
        with torch.no_grad():
            for name, fresh in self.state_dict().items():
                if not name.startswith("reply."):
                    fresh.copy_(state[name])
                    continue
                if len(state[name]) != len(before):
                    continue
                for i, reply in enumerate(now):
                    of = row.get(reply, row.get(kind_of(reply)))
                    if of is not None:
                        fresh[i] = state[name][of]


@dataclass(frozen=True, slots=True)
class Targets:
    """A batch, position by position; all tensors are [n, positions, …] and on the device."""

    heard: Tensor
    """[…, 17] int64 columns as they are heard."""
    coming: Tensor
    """[…, 17] int64 columns that are to be foreseen."""
    live: Tensor
    """bool: what comes next is not forced by the prompt."""
    speaking: Tensor
    """bool: the codes that come next are of speech."""
    weight: Tensor
    """float32 weight of the text that comes next."""
    reply: Tensor
    """int64 class of a reply to what was heard; IGNORE where there is none."""
    greeting: Tensor
    """int64 class of the greeting that is due; IGNORE where there is none."""


class PassLosses(NamedTuple):
    """What `LmPass` finds."""

    text: Tensor
    codes: Tensor
    """[8] by codebook."""
    reply: Tensor
    reply_right: Tensor
    """Part of the positions with a reply class at which it is the likeliest."""
    greeting: Tensor
    tapped: Tensor
    """[n, positions, dim] of the middle layer."""


class LmPass(nn.Module):
    """Forward through the model that is trained.

    Args:
        tap: the layer that words are read off.
        mixed: whether products are in bfloat16.
    """

    def __init__(
        self, spec: LmSpec, tensors: KeyedTensors, heads: AuxiliaryHeads, tap: int, mixed: bool
    ) -> None:
        super().__init__()
        self._spec, self._tap, self._mixed = spec, tap, mixed
        self._tensors, self._heads = tensors, heads

    def forward(
        self,
        heard: Tensor,
        coming: Tensor,
        live: Tensor,
        speaking: Tensor,
        weight: Tensor,
        reply: Tensor,
        greeting: Tensor,
        order: Tensor,
        gains: Mapping[str, Tensor],
    ) -> PassLosses:
        """
        Args:
            gains: `gains` of the tensors.
            heard … greeting: the fields of `Targets`.
            order: [n, positions] chance within 0 and 1, that picks silent positions.
        """
        spec = self._spec
        with torch.autocast(heard.device.type, torch.bfloat16, enabled=self._mixed):
            weights = assemble_lm(spec, partial(_fetch, self._tensors, gains))
            context, tapped = contexts(spec, weights, heard, self._tap)
            text_logits = F.linear(context, weights.text_linear).float()
            flat = context.flatten(0, 1)
            picked = _picked(live, speaking, order)
            after = coming.flatten(0, 1)[picked]
            logits = code_logits(spec, weights, flat[picked], after).float()
        codes = after[:, AGENT_ROWS].t()
        worth = torch.where(speaking, 1.0, _SILENT_WEIGHT) * live
        guesses = self._heads.reply(flat.float())
        right = guesses.detach().argmax(-1) == reply.flatten()
        return PassLosses(
            text=_text_loss(text_logits, coming[..., TEXT_ROW], weight * live, spec.text_pad),
            codes=_code_losses(logits, codes, worth.flatten()[picked], spec.card),
            reply=_class_loss(guesses, reply.flatten()),
            reply_right=right.sum() / (reply != IGNORE).sum().clamp(min=1),
            greeting=_class_loss(guesses, greeting.flatten()),
            tapped=tapped,
        )


def gains(tensors: KeyedTensors) -> dict[str, Tensor]:
    """The norms' gains by key, as vectors: made outside of what is compiled.

    PyTorch 2.11's compiler gives a parameter of [1, 1, dim] that is flattened within a gradient of
    [dim] on a GPU, which autograd refuses. To go when a later one does not.
    """
    keys = (key for key in tensors.keys if key.endswith("alpha"))
    return {key: tensors.fetch(key).flatten() for key in keys}


def _fetch(
    tensors: KeyedTensors, gains: Mapping[str, Tensor], key: str, rows: int | None = None
) -> Tensor:
    return gains[key] if key in gains else tensors.fetch(key, rows)


def _picked(live: Tensor, speaking: Tensor, order: Tensor) -> Tensor:
    """[k] the positions whose codes are learned, among all of the batch in a row."""
    rank = (order + speaking.float() - 2.0 * (~live).float()).flatten()
    return rank.topk(int(_LEARNED_SHARE * rank.numel()), sorted=False).indices


def _class_loss(guesses: Tensor, wanted: Tensor) -> Tensor:
    loss = F.cross_entropy(guesses, wanted, reduction="sum", ignore_index=IGNORE)
    return loss / (wanted != IGNORE).sum().clamp(min=1)


def _text_loss(logits: Tensor, wanted: Tensor, weight: Tensor, pad: int) -> Tensor:
    losses = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
    weight = (weight * torch.where(wanted == pad, _PAD_WEIGHT, 1.0)).flatten()
    return (losses * weight).sum() / weight.sum().clamp(min=1)


def _code_losses(logits: Tensor, codes: Tensor, weight: Tensor, sos: int) -> Tensor:
    """[8], each codebook's; a start-of-stream is no code to learn."""
    losses = F.cross_entropy(
        logits.flatten(0, 1), codes.flatten(), reduction="none", ignore_index=sos
    ).view(codes.shape)
    weight = weight * (codes != sos)
    return (losses * weight).sum(1) / weight.sum(1).clamp(min=1)
