"""Reading checkpoint files: every key accounted for, every tensor straight to its device.

Beside the released layouts, any tensor may be stored in eight bits: `KEY` is int8 and `KEY_scale`,
of as many dimensions, each 1 or as long as that of `KEY`, is what its numbers are multiplied by. So
one scale a row of a matrix [out, in] is [out, 1], one an output channel of a transposed convolution
[in, out, kernel] is [1, out, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from rtc_agent.errors import CheckpointError
from rtc_agent.model.mimi_weights import MimiWeights, assemble_mimi
from rtc_agent.model.quantised import WeightFormat
from rtc_agent.model.spec import DEPFORMER_STEPS, LmSpec, MimiSpec
from rtc_agent.model.weights import LmWeights, assemble_lm

Progress = Callable[[int, int], None]
"""Called with bytes read so far and bytes to read in all."""

SCALE_SUFFIX = "_scale"
"""Of the key that holds the scales of an eight-bit tensor."""

_open: Callable[..., Any] = safe_open
_FUSED_TO_SPLIT = {
    "in_proj_weight": "in_projs.{}.weight",
    "out_proj.weight": "out_projs.{}.weight",
}


class CheckpointFile:
    """An open safetensors file whose tensors are read to one device in one dtype.

    Raises:
        CheckpointError: the file is missing, cut short or not safetensors.
    """

    def __init__(
        self,
        path: Path,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        progress: Progress | None = None,
    ) -> None:
        self.path = path
        self._dtype = dtype
        self._progress = progress
        self._done = 0
        self.total_bytes = path.stat().st_size if path.exists() else 0
        try:
            self._file = _open(path, framework="pt", device=str(torch.device(device)))
        except FileNotFoundError:
            raise CheckpointError(f"{path} does not exist") from None
        except (SafetensorError, OSError) as error:
            raise CheckpointError(
                f"{path} cannot be read: {error}; copy or fetch it again"
            ) from error
        self.shapes: dict[str, tuple[int, ...]] = {
            key: tuple(self._file.get_slice(key).get_shape()) for key in self._file.keys()
        }
        """Of every tensor; those of eight bits count as one with their scales."""
        self._scales = {
            key: self.shapes.pop(key + SCALE_SUFFIX, None)
            for key in list(self.shapes)
            if self._file.get_slice(key).get_dtype() == "I8"
        }

    @property
    def problems(self) -> list[str]:
        """What is wrong with the scales of eight-bit tensors."""
        found = []
        for key, scale in self._scales.items():
            if scale is None:
                found.append(f"missing {key}{SCALE_SUFFIX}, the scales of an int8 tensor")
            elif not _scales(scale, self.shapes[key]):
                found.append(
                    f"{key}{SCALE_SUFFIX} is {list(scale)}, which does not scale "
                    f"{list(self.shapes[key])}"
                )
        return found

    def read(self, key: str, rows: int | slice | None = None) -> Tensor:
        """The tensor of `key`, or some of its rows, on the device and in the dtype.

        Args:
            rows: how many, from the first, or which; None: all.
        """
        part = rows if isinstance(rows, slice) else slice(rows)
        raw = self._take(key, part)
        if (scale := self._scales.get(key)) is not None:
            factor = self._take(key + SCALE_SUFFIX, slice(None) if scale[0] == 1 else part)
            tensor = (raw.float() * factor.float()).to(self._dtype)
        else:
            tensor = raw.to(self._dtype)
        if self._progress is not None:
            self._progress(self._done, self.total_bytes)
        # A tensor of the file's own dtype on the CPU is a view of the mapped file; keep a copy, so
        # that the file may be replaced while the model runs.
        return tensor.clone() if tensor.device.type == "cpu" and tensor is raw else tensor

    def _take(self, key: str, rows: slice) -> Tensor:
        raw: Tensor = self._file.get_slice(key)[rows]
        self._done += raw.numel() * raw.element_size()
        return raw


def _scales(scale: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether scales of one shape belong to values of the other."""
    return len(scale) == len(shape) and all(s in (1, n) for s, n in zip(scale, shape, strict=True))


def check_file(file: CheckpointFile, expected: Mapping[str, tuple[int, ...]]) -> None:
    """As `check_keys`, of an open file and its scales too."""
    check_keys(file.path, file.shapes, expected, file.problems)


def check_keys(
    path: Path,
    found: Mapping[str, tuple[int, ...]],
    expected: Mapping[str, tuple[int, ...]],
    known: Sequence[str] = (),
) -> None:
    """Compare a file's keys and shapes with what the model needs.

    Args:
        known: problems that were found before.

    Raises:
        CheckpointError: naming every key that is missing, left over or of another shape.
    """
    problems = [*known]
    problems += [f"missing {key} {list(expected[key])}" for key in expected if key not in found]
    problems += [f"left over {key} {list(found[key])}" for key in found if key not in expected]
    problems += [
        f"{key} is {list(found[key])}, expected {list(shape)}"
        for key, shape in expected.items()
        if key in found and found[key] != shape
    ]
    if problems:
        raise CheckpointError(f"{path.name} does not fit the model's config: {'; '.join(problems)}")


def load_lm(
    path: Path,
    spec: LmSpec,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    form: WeightFormat = "model",
    progress: Progress | None = None,
) -> LmWeights:
    """Read the language model.

    Takes attention fused (PersonaPlex) or split by step (Moshi's newer files), and the depformer
    whole or with its first eight steps alone.

    Raises:
        CheckpointError: the file is damaged or does not fit `spec`.
    """
    file = CheckpointFile(path, device, dtype, progress)
    expected = spec.shapes(_steps_in(file.shapes, spec))
    split = {
        key: _split_keys(key, shape, spec)
        for key, shape in expected.items()
        if key.rsplit("self_attn.", 1)[-1] in _FUSED_TO_SPLIT
        and next(iter(_split_keys(key, shape, spec))) in file.shapes
    }
    stored = {key: shape for key, shape in expected.items() if key not in split}
    for parts in split.values():
        stored |= parts
    check_file(file, stored)

    def fetch(key: str, rows: int | None) -> Tensor:
        if key not in split:
            return file.read(key, rows)
        parts = [file.read(k) for k in list(split[key])[:DEPFORMER_STEPS]]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def fetch_rows(key: str, rows: slice) -> Tensor:
        if key not in split:
            return file.read(key, rows)
        # A key of several parts is one a step; the temporal transformer's have one.
        height = next(iter(split[key].values()))[0]
        parts = []
        for i, part in enumerate(split[key]):
            first, last = max(0, rows.start - i * height), min(height, rows.stop - i * height)
            if first < last:
                parts.append(file.read(part, slice(first, last)))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    return assemble_lm(spec, fetch, form, fetch_rows)


def _steps_in(found: Mapping[str, tuple[int, ...]], spec: LmSpec) -> int:
    steps = spec.depformer_checkpoint_steps
    later = (f"linears.{k}.weight" for k in range(DEPFORMER_STEPS, steps))
    return steps if any(key in found for key in later) else DEPFORMER_STEPS


def _split_keys(key: str, shape: tuple[int, ...], spec: LmSpec) -> dict[str, tuple[int, ...]]:
    module, name = key.rsplit("self_attn.", 1)
    dim = shape[1]
    rows = 3 * dim if name == "in_proj_weight" else dim
    return {
        f"{module}self_attn.{_FUSED_TO_SPLIT[name].format(k)}": (rows, dim)
        for k in range(math.ceil(shape[0] / rows))
    }


def load_mimi(
    path: Path,
    spec: MimiSpec,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> MimiWeights:
    """Read the codec, always in float32; codebooks past the eighth are left in the file.

    Raises:
        CheckpointError: the file is damaged or does not fit `spec`.
    """
    file = CheckpointFile(path, device, torch.float32, progress)
    check_file(file, spec.shapes())
    return assemble_mimi(spec, file.read)
