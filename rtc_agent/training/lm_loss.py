"""What the language model is taught: text, codes, and, to make it listen, words and intents.

The auxiliary losses are on heads that are thrown away. Without them the model learns to speak long
before it learns to hear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.spec import AGENT_ROWS, CODEBOOKS, TEXT_ROW, USER_ROWS, LmSpec
from rtc_agent.model.weights import assemble_lm
from rtc_agent.training.conversations import Encoded
from rtc_agent.training.data.batch import IGNORE
from rtc_agent.training.data.script import GREETING_FRAME
from rtc_agent.training.keyed import KeyedTensors
from rtc_agent.training.lm_net import code_logits, contexts, delayed_columns
from rtc_agent.training.lm_pass import AuxiliaryHeads, LmPass, PassLosses, Targets, gains
from rtc_agent.training.lm_words import utterances, word_errors, word_loss

_TEXT, _CODES, _REPLY, _GREETING = 2.0, 0.6, 0.4, 0.25
"""Weights of the losses; that of the words falls in the course of training. The greeting's is a
loss of its own, so that the persona's name does not go under among all that a call asks."""
_FIRST_CODEBOOK = 4.0
"""Weight of codebook 0 against each of the others."""
_DROPPED_ROWS = 0.04
"""Part of the user's acoustic rows that a conversation is heard without."""
_WRONG_CODES = 0.01
"""Part of the codes heard that are others than they should be."""


@dataclass(slots=True)
class Losses:
    """Of one batch; every figure a tensor on the device."""

    total: Tensor
    text: Tensor
    codes: Tensor
    """[8] by codebook."""
    words: Tensor
    reply: Tensor
    reply_right: Tensor
    greeting: Tensor


@dataclass(slots=True)
class Scores:
    """How often the likeliest is right, without errors in what is heard."""

    text: Tensor
    """Of the texts that are not PAD."""
    code0: Tensor
    """Of codebook 0 while the agent speaks."""
    reply: Tensor
    """Of replies to what was heard."""
    name: Tensor
    """Of the greetings that are due after a prompt, told at its end: whether the persona's name is
    known before there is any sound that could tell it."""
    word_errors: float
    """Edit distance of pieces over their number, of the words spelled out greedily."""


class LmObjective:
    """Losses and scores of a language model in training.

    Args:
        tap: the layer that words are read off.
        mixed: whether products are in bfloat16.
        compiler: what compiles the part whose shapes are fixed, or PyTorch's name of it; None runs
            it as it is.
    """

    def __init__(
        self,
        spec: LmSpec,
        tensors: KeyedTensors,
        heads: AuxiliaryHeads,
        tap: int,
        mixed: bool,
        compiler: str | Callable[..., Any] | None = None,
    ) -> None:
        self._spec, self._tensors, self._heads = spec, tensors, heads
        self._tap, self._mixed = tap, mixed
        run = LmPass(spec, tensors, heads, tap, mixed).forward
        self._forward: Callable[..., PassLosses] = run
        if compiler is not None:
            self._forward = torch.compile(run, backend=compiler, fullgraph=True, dynamic=False)
        books = torch.tensor([_FIRST_CODEBOOK, *(1.0,) * (CODEBOOKS - 1)])
        self._by_book = (books / books.sum()).to(heads.reply.weight.device)

    def losses(self, given: Encoded, words_weight: float, chance: torch.Generator) -> Losses:
        """
        Args:
            chance: of errors in what is heard and of silent frames; on the device.
        """
        to = self._targets(given)
        said = utterances(given, to.coming.shape[1])
        run = self._forward(
            _with_errors(self._spec, to.heard, chance),
            to.coming,
            to.live,
            to.speaking,
            to.weight,
            to.reply,
            to.greeting,
            torch.rand(to.live.shape, device=to.live.device, generator=chance),
            gains(self._tensors),
        )
        spelled = self._heads.spelled(run.tapped.flatten(0, 1)[said.places])
        words = word_loss(spelled, said, self._spec.text_pad)
        spoken = (run.codes * self._by_book).sum()
        total = _TEXT * run.text + _CODES * spoken + _REPLY * run.reply + words_weight * words
        total = total + _GREETING * run.greeting
        return Losses(
            total,
            run.text.detach(),
            run.codes.detach(),
            words.detach(),
            run.reply.detach(),
            run.reply_right,
            run.greeting.detach(),
        )

    @torch.no_grad()
    def scores(self, given: Encoded) -> Scores:
        """Of conversations that are not learned from."""
        spec, to = self._spec, self._targets(given)
        speech = to.live & to.speaking
        with torch.autocast(speech.device.type, torch.bfloat16, enabled=self._mixed):
            weights = assemble_lm(spec, self._tensors.fetch)
            context, tapped = contexts(spec, weights, to.heard, self._tap)
            text = F.linear(context, weights.text_linear).argmax(-1)
            codes = code_logits(spec, weights, context[speech], to.coming[speech])
        said = to.live & (to.coming[..., TEXT_ROW] != spec.text_pad)
        replies = self._heads.reply(context.float()).argmax(-1)
        asked = to.reply != IGNORE
        position = torch.arange(replies.shape[1], device=replies.device)
        named = (to.greeting != IGNORE) & (position == given.prompt_frames[:, None] - 1)
        heard = utterances(given, to.coming.shape[1])
        spelled = self._heads.spelled(tapped.flatten(0, 1)[heard.places])
        first = to.coming[speech][:, AGENT_ROWS.start]
        return Scores(
            text=_share((text == to.coming[..., TEXT_ROW])[said]),
            code0=_share(codes[0].argmax(-1) == first),
            reply=_share((replies == to.reply)[asked]),
            name=_share((replies == to.greeting)[named]),
            word_errors=word_errors(spelled, heard, spec.text_pad),
        )

    def _targets(self, given: Encoded) -> Targets:
        columns = delayed_columns(self._spec, given.frames.long())[:, :-1]
        position = torch.arange(columns.shape[1] - 1, device=columns.device)
        reply = given.reply[:, :-1].long()
        opening = position <= given.prompt_frames[:, None] + GREETING_FRAME
        return Targets(
            heard=columns[:, :-1],
            coming=columns[:, 1:],
            live=position >= given.prompt_frames[:, None] - 1,
            # Codebook 0 of the next frame and the others of this one.
            speaking=given.speaking[:, 1:] | given.speaking[:, :-1],
            weight=given.text_weight[:, 1:].float(),
            reply=torch.where(opening, IGNORE, reply),
            greeting=torch.where(opening, reply, IGNORE),
        )


def _with_errors(spec: LmSpec, columns: Tensor, chance: torch.Generator) -> Tensor:
    """Columns as they may be heard: acoustic rows of the user missing, codes wrong."""
    columns = columns.clone()
    n, positions, rows = columns.shape
    device = columns.device
    acoustic = slice(USER_ROWS.start + 1, USER_ROWS.stop)
    missing = torch.rand((n, 1, rows), device=device, generator=chance) < _DROPPED_ROWS
    columns[..., acoustic] = torch.where(missing[..., acoustic], -1, columns[..., acoustic])
    codes = columns[..., AGENT_ROWS.start :]
    other = torch.randint(spec.card, codes.shape, device=device, generator=chance)
    wrong = torch.rand(codes.shape, device=device, generator=chance) < _WRONG_CODES
    columns[..., AGENT_ROWS.start :] = torch.where(wrong, other, codes)
    return columns


def _share(right: Tensor) -> Tensor:
    """How many of them are; 0 of nothing."""
    return right.float().sum() / max(1, right.numel())
