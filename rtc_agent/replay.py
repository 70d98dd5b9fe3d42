"""A recorded run of a reference implementation: tensors, each checked when it is taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from rtc_agent.errors import CheckpointError

NAMES = ("replay.safetensors", "replays.safetensors")


class Replay:
    """The tensors of a folder's recording.

    Raises:
        CheckpointError: there is no recording, or it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        found = [folder / name for name in NAMES if (folder / name).is_file()]
        if not found:
            raise CheckpointError(f"{folder} has no {' or '.join(NAMES)} to replay.")
        self.path = found[0]
        try:
            self._tensors: dict[str, Tensor] = load_file(self.path)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{self.path} is damaged: {error}.") from error

    def __contains__(self, key: str) -> bool:
        return key in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._tensors))

    def take(self, key: str, *shape: int | str, empty: bool = False) -> Tensor:
        """A tensor of a shape; a word stands for any length above zero, or with `empty` for any.

        Raises:
            CheckpointError: the recording has none of that name, or it has another shape.
        """
        if key not in self._tensors:
            raise CheckpointError(f"{self.path} has no {key}.")
        tensor = self._tensors[key]
        found = list(tensor.shape)
        fits = len(found) == len(shape) and all(
            (length > 0 or empty) if isinstance(due, str) else length == due
            for length, due in zip(found, shape, strict=True)
        )
        if not fits:
            expected = ", ".join(map(str, shape))
            raise CheckpointError(f"{self.path} has {key} as {found}; expected [{expected}].")
        return tensor

    def take_ids(
        self, key: str, *shape: int | str, most: int, least: int = 0, empty: bool = False
    ) -> Tensor:
        """Token ids of a shape as int64, each from `least` to `most`.

        Raises:
            CheckpointError: as `take`, and for ids that the model does not have.
        """
        tensor = self.take(key, *shape, empty=empty)
        ids = tensor.to(torch.int64)
        if tensor.is_floating_point() or not ((ids >= least) & (ids <= most)).all():
            raise CheckpointError(
                f"{self.path} has {key} with other values than ids from {least} to {most}."
            )
        return ids
