"""What the language model is taught: text, codes, and, to make it listen, words and intents.

The auxiliary losses are on heads that are thrown away. Without them the model learns to speak long
before it learns to hear.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtc_agent.model.spec import AGENT_ROWS, TEXT_ROW, USER_ROWS, LmSpec
from rtc_agent.model.weights import LmWeights
from rtc_agent.training.conversations import Encoded
from rtc_agent.training.lm_net import code_logits, contexts, delayed_columns

_TEXT, _CODES, _REPLY = 2.0, 0.6, 0.4
"""Weights of the losses; that of the words falls in the course of training."""
_PAD_WEIGHT = 0.3
_FIRST_CODEBOOK = 4.0
"""Weight of codebook 0 against each of the others."""
_SILENT_SHARE = 0.25
"""Part of the silent frames whose codes are learned."""
_SILENT_WEIGHT = 0.5
_DROPPED_ROWS = 0.04
"""Part of the user's acoustic rows that a conversation is heard without."""
_WRONG_CODES = 0.01
"""Part of the codes heard that are others than they should be."""
_HEARING_FRAMES = 4
"""Frames after an utterance in which its last word may still be spelled out."""
_EPS = 1e-6


@dataclass(slots=True)
class Losses:
    """Of one batch; every figure a tensor on the device."""

    total: Tensor
    text: Tensor
    codes: Tensor
    """[8] by codebook."""
    words: Tensor
    reply: Tensor


@dataclass(slots=True)
class Scores:
    """How often the likeliest is right, without errors in what is heard."""

    text: Tensor
    """Of the texts that are not PAD."""
    code0: Tensor
    """Of codebook 0 while the agent speaks."""
    reply: Tensor
    word_errors: float
    """Edit distance of pieces over their number, of the words spelled out greedily."""


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


@dataclass(frozen=True, slots=True)
class _Pass:
    """One way through the model."""

    coming: Tensor
    """[n, positions, 17] the columns that were to be foreseen."""
    context: Tensor
    tapped: Tensor
    text_logits: Tensor
    live: Tensor
    """[n, positions] bool: what comes next is not forced by the prompt."""
    speaking: Tensor
    """[n, positions] bool: the codes that come next are of speech."""
    weight: Tensor
    """[n, positions] weight of the text that comes next."""
    reply: Tensor
    """[n, positions] reply class."""


class LmObjective:
    """Losses and scores of a language model in training.

    Args:
        tap: the layer that words are read off.
        mixed: whether products are in bfloat16.
    """

    def __init__(self, spec: LmSpec, heads: AuxiliaryHeads, tap: int, mixed: bool) -> None:
        self._spec, self._heads, self._tap, self._mixed = spec, heads, tap, mixed

    def losses(
        self, weights: LmWeights, given: Encoded, words_weight: float, chance: torch.Generator
    ) -> Losses:
        """
        Args:
            chance: of errors in what is heard and of silent frames; on the device.
        """
        device = given.frames.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self._mixed):
            run = self._run(weights, given, chance)
            silent = torch.rand(run.live.shape, device=device, generator=chance) < _SILENT_SHARE
            learned = run.live & (run.speaking | silent)
            codes = self._code_losses(weights, run, learned)
        text = self._text_loss(run)
        heard = self._word_loss(run, given)
        wanted = run.reply >= 0
        guesses = self._heads.reply(run.context[wanted].float())
        reply = _mean(F.cross_entropy(guesses, run.reply[wanted], reduction="none"))
        by_book = torch.tensor([_FIRST_CODEBOOK] + [1.0] * (len(codes) - 1), device=device)
        spoken = (codes * by_book).sum() / by_book.sum()
        total = _TEXT * text + _CODES * spoken + _REPLY * reply + words_weight * heard
        return Losses(total, text.detach(), codes.detach(), heard.detach(), reply.detach())

    @torch.no_grad()
    def scores(self, weights: LmWeights, given: Encoded) -> Scores:
        """Of conversations that are not learned from."""
        device = given.frames.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self._mixed):
            run = self._run(weights, given, None)
            speech = run.live & run.speaking
            logits = code_logits(self._spec, weights, run.context[speech], run.coming[speech])
        said = run.live & (run.coming[..., TEXT_ROW] != self._spec.text_pad)
        right = run.text_logits.argmax(-1) == run.coming[..., TEXT_ROW]
        first = run.coming[speech][:, AGENT_ROWS.start]
        wanted = run.reply >= 0
        replies = self._heads.reply(run.context[wanted].float()).argmax(-1)
        return Scores(
            text=_mean(right[said].float()),
            code0=_mean((logits[0].argmax(-1) == first).float()),
            reply=_mean((replies == run.reply[wanted]).float()),
            word_errors=self._word_errors(run, given),
        )

    def _run(self, weights: LmWeights, given: Encoded, chance: torch.Generator | None) -> _Pass:
        spec = self._spec
        frames = given.frames.long()
        columns = delayed_columns(spec, frames)[:, :-1]
        heard, coming = columns[:, :-1], columns[:, 1:]
        if chance is not None:
            heard = _with_errors(spec, heard, chance)
        context, tapped = contexts(spec, weights, heard, self._tap)
        position = torch.arange(heard.shape[1], device=frames.device)
        return _Pass(
            coming=coming,
            context=context,
            tapped=tapped,
            text_logits=F.linear(context, weights.text_linear).float(),
            live=position >= given.prompt_frames[:, None] - 1,
            # Codebook 0 of the next frame and the others of this one.
            speaking=given.speaking[:, 1:] | given.speaking[:, :-1],
            weight=given.text_weight[:, 1:].float(),
            reply=given.reply[:, :-1].long(),
        )

    def _text_loss(self, run: _Pass) -> Tensor:
        wanted = run.coming[..., TEXT_ROW]
        losses = F.cross_entropy(run.text_logits.flatten(0, 1), wanted.flatten(), reduction="none")
        pad = torch.where(wanted == self._spec.text_pad, _PAD_WEIGHT, 1.0)
        weight = (run.weight * run.live * pad).flatten()
        return (losses * weight).sum() / weight.sum().clamp(min=1)

    def _code_losses(self, weights: LmWeights, run: _Pass, learned: Tensor) -> Tensor:
        """[8], each codebook's."""
        coming = run.coming[learned]
        logits = code_logits(self._spec, weights, run.context[learned], coming).float()
        codes = coming[:, AGENT_ROWS].t()
        losses = F.cross_entropy(
            logits.flatten(0, 1), codes.flatten(), reduction="none", ignore_index=self._spec.card
        ).view(codes.shape)
        weight = torch.where(run.speaking[learned], 1.0, _SILENT_WEIGHT)
        weight = weight * (codes != self._spec.card)
        return (losses * weight).sum(1) / weight.sum(1).clamp(min=1)

    def _word_loss(self, run: _Pass, given: Encoded) -> Tensor:
        """Connectionist temporal classification of each utterance, within its own frames."""
        inputs, lengths, ids, counts = _utterances(given, run.tapped.shape[1])
        if not len(lengths):
            return run.tapped.new_zeros(()).float()
        spelled = self._heads.spelled(run.tapped[inputs]).transpose(0, 1)
        device = spelled.device
        losses = F.ctc_loss(
            spelled,
            ids.to(device),
            lengths.to(device),
            counts.to(device),
            blank=self._spec.text_pad,
            reduction="none",
            zero_infinity=True,
        )
        return (losses / counts.to(device).clamp(min=1)).mean()

    def _word_errors(self, run: _Pass, given: Encoded) -> float:
        inputs, lengths, ids, counts = _utterances(given, run.tapped.shape[1])
        if not len(lengths):
            return 0.0
        best = self._heads.spelled(run.tapped[inputs]).argmax(-1).cpu()
        errors = 0
        for row, length, wanted, count in zip(
            best.tolist(), lengths.tolist(), ids.tolist(), counts.tolist(), strict=True
        ):
            pieces = _collapsed(row[:length], self._spec.text_pad)
            errors += edit_distance(pieces, wanted[:count])
        return errors / max(1, int(counts.sum()))


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


def _utterances(
    given: Encoded, positions: int
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor, Tensor]:
    """Every utterance on its own.

    Returns:
        indices (conversation, position) [utterances, frames] on the conversations' device; and on
        the CPU their lengths [utterances], pieces [utterances, most] and numbers of pieces.
    """
    words, spans, counts = (t.long() for t in (given.words, given.spans, given.span_words))
    rows, at = counts.nonzero(as_tuple=True)
    number = counts[rows, at]
    offset = (counts.cumsum(1) - counts)[rows, at]
    first = spans[rows, at, 0]
    last = (spans[rows, at, 1] + _HEARING_FRAMES).clamp(max=positions)
    lengths = (last - first).clamp(min=0)
    fits = lengths >= number
    rows, number, offset, first, lengths = (t[fits] for t in (rows, number, offset, first, lengths))
    most = int(number.max()) if len(number) else 0
    longest = int(lengths.max()) if len(lengths) else 0
    step = torch.arange(most)
    ids = words[rows[:, None], (offset[:, None] + step).clamp(max=words.shape[1] - 1)]
    ids = torch.where(step < number[:, None], ids, 0)
    places = (first[:, None] + torch.arange(longest)).clamp(max=positions - 1)
    device = given.frames.device
    inputs = rows[:, None].expand_as(places).to(device), places.to(device)
    return inputs, lengths, ids, number


def _mean(values: Tensor) -> Tensor:
    """The mean; 0 of nothing."""
    return values.sum() / max(1, values.numel())


def _collapsed(path: list[int], blank: int) -> list[int]:
    """A path's pieces: repetitions are one, blanks are none."""
    kept = [a for a, b in zip(path, [blank, *path], strict=False) if a != b]
    return [a for a in kept if a != blank]


def edit_distance(one: list[int], other: list[int]) -> int:
    """Levenshtein's."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]
