"""Several tensors in one buffer, so that one copy between host and device moves all of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

Fields = Mapping[str, tuple[int, torch.dtype]]
"""Name → numbers a row and their type, widest types first: nothing is padded."""


class Packed:
    """The fields of all rows, one field after another.

    Args:
        device: where it lies; None is page-locked memory of the host.
    """

    def __init__(self, fields: Fields, rows: int, device: torch.device | None) -> None:
        self._fields, self._rows = fields, rows
        sizes = [rows * width * dtype.itemsize for width, dtype in fields.values()]
        self.bytes = torch.zeros(
            sum(sizes), dtype=torch.uint8, device=device, pin_memory=device is None
        )
        """[bytes] uint8: all of it."""
        self._parts: dict[str, Tensor] = {}
        start = 0
        for (name, (width, dtype)), size in zip(fields.items(), sizes, strict=True):
            self._parts[name] = self.bytes[start : start + size].view(dtype).view(rows, width)
            start += size

    def __getitem__(self, name: str) -> Tensor:
        """[rows, width] of one field."""
        return self._parts[name]

    def on_host(self) -> Packed:
        """The same fields in page-locked memory of the host."""
        return Packed(self._fields, self._rows, None)
