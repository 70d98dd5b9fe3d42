"""Conversations made ahead of their use, by other processes, in a fixed order."""

from __future__ import annotations

import multiprocessing
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt
import torch

from rtc_agent.training.data.batch import ConversationBatch, ConversationSource

_FULL_SCALE = 32767
_WAVEFORMS = ("agent", "caller")

Packed = dict[str, npt.NDArray[np.generic]]
"""A batch's fields, waveforms in 16 bits: half of what has to pass between processes."""


class BatchesAhead:
    """Batch i of new conversations is the same whenever, and wherever, it is made.

    Batches pass through pipes and not through shared memory, of which containers have little.

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
        self._coming: deque[Future[Packed]] = deque()
        self._workers: ProcessPoolExecutor | None = None
        if workers:
            self._workers = ProcessPoolExecutor(
                workers,
                # Forked, so that what the source holds is there at once; none of it uses a GPU.
                multiprocessing.get_context("fork"),
                initializer=_begin,
                initargs=(source, n, seed),
            )
            for number in range(first, first + workers + 1):
                self._coming.append(self._workers.submit(_make, number))

    def next(self) -> ConversationBatch:
        """The next batch, on the CPU."""
        number = self._next
        self._next += 1
        if self._workers is None:
            return _unpacked(_packed(self._source, self._n, self._seed, number))
        coming = self._coming.popleft()
        self._coming.append(self._workers.submit(_make, number + len(self._coming) + 1))
        return _unpacked(coming.result())

    def close(self) -> None:
        """End the processes."""
        if self._workers is not None:
            self._workers.shutdown(cancel_futures=True)


_mine: tuple[ConversationSource, int, int] | None = None
"""What a worker makes batches of."""


def _begin(source: ConversationSource, n: int, seed: int) -> None:
    global _mine
    # Threads of the parent's are not there after a fork, and would be waited for.
    torch.set_num_threads(1)
    _mine = source, n, seed


def _make(number: int) -> Packed:
    if _mine is None:
        raise RuntimeError("the worker was not begun")
    return _packed(*_mine, number)


def _packed(source: ConversationSource, n: int, seed: int, number: int) -> Packed:
    batch = source.batch(n, np.random.default_rng((seed, number)))
    out = {field.name: getattr(batch, field.name).numpy() for field in fields(batch)}
    for name in _WAVEFORMS:
        out[name] = np.rint(np.clip(out[name], -1, 1) * _FULL_SCALE).astype(np.int16)
    return out


def _unpacked(packed: Packed) -> ConversationBatch:
    batch = ConversationBatch(**{name: torch.from_numpy(a) for name, a in packed.items()})
    return replace(batch, **{n: getattr(batch, n).float() / _FULL_SCALE for n in _WAVEFORMS})
