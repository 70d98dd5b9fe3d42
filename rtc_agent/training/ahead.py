"""Conversations made ahead of their use, by other processes, in a fixed order."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rtc_agent.training.conversations import onto
from rtc_agent.training.data.batch import ConversationBatch, ConversationSource

_FULL_SCALE = 32767
_WAVEFORMS = ("agent", "caller")


class BatchesAhead:
    """Batch i of new conversations is the same whenever, and wherever, it is made.

    Batches pass through files that live for seconds: shared memory is scarce in containers, and
    reading hundreds of megabytes out of a pipe would keep this process from its own work.

    Args:
        n: conversations in each.
        first: the number of the first batch wanted.
        workers: processes that make them; none makes each when it is asked for.
    """

    def __init__(
        self, source: ConversationSource, n: int, seed: int, first: int, workers: int
    ) -> None:
        self._source, self._n, self._seed = source, n, seed
        self._next = first
        self._coming: deque[Future[Path]] = deque()
        self._workers: ProcessPoolExecutor | None = None
        if workers:
            self._folder = tempfile.TemporaryDirectory(prefix="conversations-")
            self._workers = ProcessPoolExecutor(
                workers,
                # Forked, so that what the source holds is there at once; none of it uses a GPU.
                multiprocessing.get_context("fork"),
                initializer=_begin,
                initargs=(source, n, seed, Path(self._folder.name)),
            )
            for number in range(first, first + workers + 1):
                self._coming.append(self._workers.submit(_make, number))
            # Reading takes a while too, and lets other threads work.
            self._reader = ThreadPoolExecutor(1)
            self._read = self._reader.submit(self._fetch, self._workers, first)

    def next(self, device: torch.device) -> ConversationBatch:
        """The next batch: waveforms on a device, all else on the CPU."""
        number = self._next
        self._next += 1
        if self._workers is None:
            return _unpacked(_packed(self._source, self._n, self._seed, number), device)
        packed = self._read.result()
        self._read = self._reader.submit(self._fetch, self._workers, number + 1)
        return _unpacked(packed, device)

    def close(self) -> None:
        """End the processes."""
        if self._workers is not None:
            self._workers.shutdown(cancel_futures=True)
            self._reader.shutdown(cancel_futures=True)
            self._folder.cleanup()

    def _fetch(self, workers: ProcessPoolExecutor, number: int) -> dict[str, Tensor]:
        """Batch `number`, and another one begun in its place."""
        made = self._coming.popleft().result()
        self._coming.append(workers.submit(_make, number + len(self._coming) + 1))
        packed: dict[str, Tensor] = torch.load(made, weights_only=True)
        made.unlink()
        if torch.cuda.is_initialized():
            packed |= {name: packed[name].pin_memory() for name in _WAVEFORMS}
        return packed


_mine: tuple[ConversationSource, int, int, Path] | None = None
"""What a worker makes batches of, and where it puts them."""


def _begin(source: ConversationSource, n: int, seed: int, folder: Path) -> None:
    global _mine
    # Threads of the parent's are not there after a fork, and would be waited for.
    torch.set_num_threads(1)
    _mine = source, n, seed, folder


def _make(number: int) -> Path:
    if _mine is None:
        raise RuntimeError("the worker was not begun")
    source, n, seed, folder = _mine
    made = folder / f"{number}.pt"
    torch.save(_packed(source, n, seed, number), made)
    return made


def _packed(source: ConversationSource, n: int, seed: int, number: int) -> dict[str, Tensor]:
    """A batch's fields, waveforms in 16 bits: half of what has to be moved about."""
    batch = source.batch(n, np.random.default_rng((seed, number)))
    out: dict[str, Tensor] = {field.name: getattr(batch, field.name) for field in fields(batch)}
    for name in _WAVEFORMS:
        out[name] = (out[name].clamp(-1, 1) * _FULL_SCALE).round().to(torch.int16)
    return out


def _unpacked(packed: dict[str, Tensor], device: torch.device) -> ConversationBatch:
    """Waveforms widened on the device; what says where to look stays here."""
    wide = {name: onto(device, packed[name]).float() / _FULL_SCALE for name in _WAVEFORMS}
    return ConversationBatch(**packed | wide)
