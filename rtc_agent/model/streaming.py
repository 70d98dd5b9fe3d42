"""State that a streaming module carries from frame to frame, one row a session."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Rows:
    """Every piece of state of one codec half, with the rows in front.

    A module reads its piece, works, and offers what the piece should become; `commit` takes that
    for the live rows alone. Pieces that a sitting-out row may be left changed in (rings, whose next
    entry is rewritten before it is read) are written directly.
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        self.rows = rows
        self.device = device
        self.position = self._add((), torch.int64)
        """[rows] frames run."""
        self._pieces: list[Tensor] = []
        self._rings: list[Tensor] = []
        self._offers: list[tuple[Tensor, Tensor]] = []

    def _add(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros((self.rows, *shape), device=self.device, dtype=dtype)

    def piece(self, *shape: int) -> Tensor:
        """A new piece of state, [rows, *shape], zero in a new row."""
        self._pieces.append(self._add(shape))
        return self._pieces[-1]

    def ring(self, *shape: int) -> Tensor:
        """As `piece`, for state that its module writes directly."""
        self._rings.append(self._add(shape))
        return self._rings[-1]

    def offer(self, piece: Tensor, value: Tensor) -> None:
        """What `piece` becomes in live rows once the frame is done."""
        self._offers.append((piece, value))

    def commit(self, live: Tensor) -> None:
        """End the frame: take what was offered, and count it, in the live rows [rows] bool."""
        for piece, value in self._offers:
            mask = live.view(-1, *(1,) * (piece.ndim - 1))
            piece.copy_(torch.where(mask, value, piece))
        self._offers.clear()
        self.position.add_(live)

    def reset(self, row: int) -> None:
        """Make a row as new."""
        for piece in (*self._pieces, *self._rings, self.position):
            piece[row] = 0

    def save(self, row: int) -> list[Tensor]:
        """A copy of a row's state."""
        return [p[row].clone() for p in (*self._pieces, *self._rings, self.position)]

    def restore(self, row: int, saved: Sequence[Tensor]) -> None:
        """Give a row the state of another, of these or of equal modules."""
        held = (*self._pieces, *self._rings, self.position)
        for piece, value in zip(held, saved, strict=True):
            piece[row] = value
