"""The words of each utterance, within its own frames: where they are, and how well they are read.

Where to look is known on the CPU, so that no step waits for the device to say it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.training.conversations import Encoded, onto

_HEARING_FRAMES = 4
"""Frames after an utterance in which its last word may still be spelled out."""


@dataclass(frozen=True, slots=True)
class Utterances:
    """Every utterance of a batch on its own."""

    places: Tensor
    """[utterances, frames] positions among all of the batch in a row; on the device."""
    ids: Tensor
    """[utterances, most] pieces; on the device."""
    lengths: Tensor
    """[utterances] frames of each; on the CPU."""
    counts: Tensor
    """[utterances] pieces of each; on the CPU."""
    share: Tensor
    """[utterances] one over `counts`; on the device."""

    def __len__(self) -> int:
        return len(self.lengths)


def utterances(given: Encoded, positions: int) -> Utterances:
    """All that have room for their pieces.

    Args:
        positions: of each conversation.
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
    return Utterances(
        places=onto(device, rows[:, None] * positions + places),
        ids=onto(device, ids),
        lengths=lengths,
        counts=number,
        share=onto(device, 1 / number.clamp(min=1)),
    )


def word_loss(spelled: Tensor, said: Utterances, blank: int) -> Tensor:
    """Connectionist temporal classification, a piece.

    Args:
        spelled: [utterances, frames, pieces] log-probabilities.
    """
    if not len(said):
        return spelled.new_zeros(())
    losses = F.ctc_loss(
        spelled.transpose(0, 1),
        said.ids,
        # On the device they would be fetched from there.
        said.lengths,
        said.counts,
        blank=blank,
        reduction="none",
        zero_infinity=True,
    )
    return (losses * said.share).mean()


def word_errors(spelled: Tensor, said: Utterances, blank: int) -> float:
    """Edit distance of pieces over their number, of the words spelled out greedily."""
    best = spelled.argmax(-1).tolist()
    wanted = said.ids.tolist()
    errors = 0
    for i, (length, count) in enumerate(
        zip(said.lengths.tolist(), said.counts.tolist(), strict=True)
    ):
        errors += edit_distance(collapsed(best[i][:length], blank), wanted[i][:count])
    return errors / max(1, int(said.counts.sum()))


def collapsed(path: list[int], blank: int) -> list[int]:
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
