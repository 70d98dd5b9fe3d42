"""Input buffers of a codec half's layers: each row's past inputs right before its new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rtc_agent.model.cuda.launch import Launch, next_power_of_two
from rtc_agent.model.kernels.conv import commit_kernel


@dataclass(frozen=True, slots=True)
class LayerInput:
    """One layer's input, channels last."""

    past: int
    """Inputs that are kept from frame to frame."""
    new: int
    """Inputs of one frame."""
    channels: int


class Arena:
    """One allocation for all layers' inputs, so that one launch can end a frame.

    Args:
        shapes: the layers' inputs; those that keep nothing need none.
    """

    def __init__(self, shapes: Sequence[LayerInput], rows: int, device: torch.device) -> None:
        sizes = [(s.past + s.new) * s.channels for s in shapes]
        # Every buffer starts at a multiple of 16 bytes, whatever came before it.
        spans = [-(-rows * size // 4) * 4 for size in sizes]
        self._flat = torch.zeros(sum(spans), dtype=torch.float32, device=device)
        self._shapes = tuple(shapes)
        self.device = device
        self.position = torch.zeros(rows, dtype=torch.int64, device=device)
        """[rows] frames run."""
        self.inputs: list[Tensor] = []
        """A layer's input each, [rows, past + new, channels]."""
        table = []
        start = 0
        for shape, size, span in zip(shapes, sizes, spans, strict=True):
            view = self._flat[start : start + rows * size]
            self.inputs.append(view.view(rows, shape.past + shape.new, shape.channels))
            channels = shape.channels
            table.append((start, size, shape.new * channels, shape.past * channels))
            start += span
        self._table = torch.tensor(table, dtype=torch.int64, device=device)
        self._block = next_power_of_two(max(s.past * s.channels for s in shapes))
        self.rings: list[Tensor] = []
        """State that its kernels write directly, rows in front."""

    def new(self, layer: int) -> Tensor:
        """Where a layer's new inputs go, [rows, new, channels]."""
        return self.inputs[layer][:, self._shapes[layer].past :]

    def commit(self, live: Tensor, how: Launch) -> None:
        """End a frame of the live rows [rows] bool: new inputs become past ones."""
        commit_kernel[(len(self._shapes), self.position.shape[0])](
            self._flat, self._table, live, self.position, BLOCK=self._block, **how.options(8)
        )

    def _pieces(self) -> list[Tensor]:
        past = [x[:, : s.past] for x, s in zip(self.inputs, self._shapes, strict=True)]
        return [*past, *self.rings, self.position]

    def reset(self, row: int) -> None:
        """Make a row as new."""
        for piece in self._pieces():
            piece[row] = 0

    def save(self, row: int) -> list[Tensor]:
        """A copy of a row's state."""
        return [p[row].clone() for p in self._pieces()]

    def restore(self, row: int, saved: Sequence[Tensor]) -> None:
        """Give a row the state of another."""
        for piece, value in zip(self._pieces(), saved, strict=True):
            piece[row] = value
