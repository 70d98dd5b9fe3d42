"""The talker's side of code2wav: hands codes over, waits for sound, keeps a code2wav running.

A code2wav that ends, or says nothing for `HUNG_S` while it has work, is started again. What it knew
of every open session it gets back by decoding that session's left context anew: the newest codes,
which are still in the shared memory. A session no older than that then goes on bit for bit as if
nothing had been; an older one as near as the context is long.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from rtc_agent.engine.stages.code2wav import Decode, Done, Message, Open, Stretch
from rtc_agent.engine.stages.keeper import Keeper
from rtc_agent.engine.stages.memory import Layout, StageMemory, create
from rtc_agent.engine.stages.worker import Start, Worker

log = logging.getLogger(__name__)

HUNG_S = 3.0
"""A code2wav that has work and says nothing for so long hangs."""


@dataclass(slots=True)
class _Track:
    """What has been asked for one slot's session."""

    generation: int
    after_prompt: bool
    asked: int = 0
    """Frames, from the session's first."""


Mark = tuple[int, int]
"""A moment in the work of a code2wav: which one, and how many jobs it had been given."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A frame whose sound is due."""

    slot: int
    generation: int
    frame: int


class Code2WavLink:
    """`submit` and `open` are for one thread, `collect` for one thread, the same or another.

    Args:
        layout: of the memory that the two share.
        start: starts a code2wav, which is given the memory's file descriptor.
        left_context: frames that are decoded anew by a code2wav that takes over.
        hung_s: a code2wav that has work and says nothing for so long hangs.
        spare: have another one loaded and waiting.
    """

    def __init__(
        self,
        layout: Layout,
        start: Start,
        left_context: int,
        *,
        hung_s: float = HUNG_S,
        spare: bool = False,
    ) -> None:
        self._fd = create(layout)
        self.memory = StageMemory(self._fd, layout)
        self.hung_s = hung_s
        self._left_context = left_context
        self._tracks: dict[int, _Track] = {}
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        """The one that works; None while there is none."""
        self._number = 0
        """Which one it is."""
        self._given = self._done = 0
        """Jobs, since it took over."""
        self._taken_over = 0
        """Of these, how many were to give it what it has to know."""
        self._heard_s = 0.0
        """When it last said something, or was first given something to do."""
        self._catching_up = False
        self._closed = False
        self._keeper = Keeper(start, self._fd, self, spare=spare)
        self._keeper.start()

    @property
    def restarts(self) -> int:
        """How often another code2wav took over."""
        return self._keeper.restarts

    def wait_ready(self) -> None:
        """Until it works for the first time.

        Raises:
            StageFailed: it cannot.
        """
        self._keeper.wait_ready()

    def check(self) -> None:
        """
        Raises:
            StageFailed: it was given up.
        """
        self._keeper.check()

    @property
    def up(self) -> bool:
        """Whether there is one, and it keeps up."""
        return self._worker is not None and not self._catching_up

    def open(self, slot: int, generation: int, *, after_prompt: bool) -> None:
        """A slot has a new session; frames of the last one are given to nobody from here on."""
        with self._lock:
            self.memory.clear(slot)
            self._tracks[slot] = _Track(generation, after_prompt)
            self._send(Open(slot, generation, after_prompt))

    def close(self, slot: int) -> None:
        """Its session is over."""
        with self._lock:
            self._tracks.pop(slot, None)

    def submit(self, stretches: Sequence[Stretch]) -> None:
        """Have frames decoded whose codes are in the memory; of each session the next ones."""
        with self._lock:
            for stretch in stretches:
                self._tracks[stretch.slot].asked = stretch.first + stretch.frames
            self._give(Decode(tuple(stretches)))

    def mark(self) -> Mark:
        """Now, for a `collect` of what is submitted from here on."""
        with self._lock:
            return self._number, self._given

    def rehearse(self, job: Message) -> None:
        """Give a job that belongs to no session."""
        with self._lock:
            self._give(job)

    def drain(self) -> None:
        """Wait until every job is done, or nobody is there to do it."""
        while (connection := self._working()) is not None and self._given > self._done:
            self._listen(connection, self.hung_s)
            if self._hangs():
                self._end_hung()

    def collect(
        self, wanted: Sequence[Wanted], since: Mark, patience_s: float = math.inf
    ) -> list[Wanted]:
        """Wait for frames; those that will not come in time, or never.

        Args:
            since: when the first of them was submitted, or before.
            patience_s: how long a code2wav that works is waited for. One that was late is not
                waited for again while it is silent, or takes over: the talker goes on meanwhile.
                One that gets on is, or it would never catch up with a talker that runs ahead.
        """
        deadline = time.monotonic() + patience_s
        while True:
            connection = self._working()
            while connection is not None and self._listen(connection, 0.0):
                connection = self._working()
            missing = [w for w in wanted if not self._there(w)]
            if not missing or connection is None:
                return missing
            with self._lock:
                self._catching_up = self._catching_up and (self._number, self._done) < since
                silent_at = self._heard_s + self.hung_s
                now = time.monotonic()
                silent = now - self._heard_s > patience_s or self._done < self._taken_over
                late = self._catching_up and silent and patience_s < math.inf
            if now >= silent_at:
                self._end_hung()
                return missing
            if late or now >= deadline:
                self._catching_up = True
                return missing
            self._listen(connection, min(deadline, silent_at) - now)

    def shutdown(self) -> None:
        """End it and wait for that. Idempotent."""
        if not self._closed:
            self._closed = True
            self._keeper.stop()
            os.close(self._fd)

    # What the keeper asks

    def take_on(self, worker: Worker) -> None:
        """Give it every open session, and let it decode what it has to know of them."""
        with self._lock:
            self._worker = worker
            self._number += 1
            self._given = self._done = 0
            stretches = []
            for slot, track in self._tracks.items():
                first = max(0, track.asked - self._left_context)
                # Behind its left context a session's beginning is out of sight.
                after_prompt = track.after_prompt and first == 0
                self._send(Open(slot, track.generation, after_prompt))
                stretches.append(Stretch(slot, track.generation, first, track.asked - first))
            if stretches:
                self._catching_up = True
                self._give(Decode(tuple(stretches)))
            self._taken_over = self._given

    def employs(self, worker: Worker) -> bool:
        return self._worker is worker

    def dismiss(self, worker: Worker) -> None:
        self._lose(worker.connection)

    def _there(self, wanted: Wanted) -> bool:
        return self.memory.has_sound(wanted.slot, wanted.generation, wanted.frame)

    def _working(self) -> Connection | None:
        worker = self._worker
        return None if worker is None else worker.connection

    def _listen(self, connection: Connection, wait_s: float) -> bool:
        """Take in one message, or that there will be none any more; false: nothing came."""
        try:
            if not connection.poll(wait_s):
                return False
            message = connection.recv()
        except (EOFError, OSError):
            self._lose(connection)
            return True
        with self._lock:
            if self._working() is connection and isinstance(message, Done):
                self._done = message.jobs
                self._heard_s = time.monotonic()
        return True

    def _hangs(self) -> bool:
        return self._given > self._done and time.monotonic() - self._heard_s > self.hung_s

    def _end_hung(self) -> None:
        worker = self._worker
        if worker is not None:
            log.critical("code2wav has said nothing for %.0f s and is ended", self.hung_s)
            worker.kill()
            self._lose(worker.connection)

    def _lose(self, connection: Connection) -> None:
        with self._lock:
            if self._working() is connection:
                self._forget()

    def _forget(self) -> None:
        self._worker = None
        self._keeper.look()

    def _give(self, job: Message) -> None:
        if self._given == self._done:
            self._heard_s = time.monotonic()
        self._given += 1
        self._send(job)

    def _send(self, message: Message) -> None:
        if (connection := self._working()) is None:
            return
        try:
            connection.send(message)
        except OSError:
            self._forget()
