"""Keeps a code2wav running: starts it, looks after it, starts another when it has ended."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Protocol

from rtc_agent.engine.stages.code2wav import Refusal
from rtc_agent.engine.stages.worker import Start, Worker
from rtc_agent.errors import StageFailed

log = logging.getLogger(__name__)

LOAD_S = 300.0
"""How long one may take to be ready."""
STEADY_S = 10.0
"""One that worked for so long was not broken from the start."""
TRIES = 4
"""Starts in a row that come to nothing before it is given up."""
PAUSE_S = 0.25
"""Before the second of them; doubled each time."""
LOOK_EVERY_S = 0.25
"""How often it is looked after while nobody waits for it."""
STOP_S = 2.0
"""What it gets to end by itself."""
GONE = "The part of the agent that makes its voice does not run any more"


class Employer(Protocol):
    """Who has the work."""

    def take_on(self, worker: Worker) -> None:
        """It is ready: give it all that there is to do."""
        ...

    def employs(self, worker: Worker) -> bool:
        """Whether it is still wanted."""
        ...

    def dismiss(self, worker: Worker) -> None:
        """It has ended, or has to."""
        ...


class Keeper:
    """A thread that has one worker work for its employer, and with `spare` another one wait.

    A spare is loaded and idle: whoever takes over need not be loaded first.
    """

    def __init__(self, start: Start, memory_fd: int, employer: Employer, *, spare: bool) -> None:
        self.restarts = 0
        self._start = start
        self._fd = memory_fd
        self._employer = employer
        self._wants_spare = spare
        self._spare: Worker | None = None
        self._failure: str | None = None
        self._stopping = False
        self._settled = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keep code2wav", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait_ready(self) -> None:
        """Until there is one for the first time.

        Raises:
            StageFailed: it cannot be had.
        """
        self._settled.wait()
        self.check()

    def check(self) -> None:
        """
        Raises:
            StageFailed: it was given up.
        """
        if self._failure is not None:
            raise StageFailed(self._failure, retry_after_s=10)

    def look(self) -> None:
        """Something has happened to the worker. Callable from any thread."""
        self._wake.set()

    def stop(self) -> None:
        """End the workers, and wait for that."""
        self._stopping = True
        self._wake.set()
        self._settled.set()
        self._thread.join()

    def _keep(self) -> None:
        fruitless = 0
        while not self._stopping:
            fruitless += 1
            worker, why = self._ready_one()
            if worker is not None:
                began = time.monotonic()
                self._employer.take_on(worker)
                self._settled.set()
                why = self._attend(worker)
                if time.monotonic() - began > STEADY_S:
                    fruitless = 0
            if self._stopping:
                break
            if not self._settled.is_set() or fruitless >= TRIES:
                log.critical("code2wav is given up: %s", why)
                self._failure = f"{GONE}: {why}."
                self._settled.set()
                break
            log.error("code2wav ended (%s); another one takes over", why)
            self.restarts += 1
            if self._spare is None:
                self._wake.clear()
                self._wake.wait(0 if self._stopping else PAUSE_S * 2 ** max(0, fruitless - 1))
        if self._spare is not None:
            self._spare.hang_up()
            _end(self._spare)

    def _ready_one(self) -> tuple[Worker | None, str]:
        """One that has said that it is ready, or why there is none."""
        worker = self._spare or self._start(self._fd)
        self._spare = None
        deadline = time.monotonic() + LOAD_S
        why = f"it was not ready within {LOAD_S:.0f} s"
        with contextlib.suppress(EOFError, OSError):
            while not self._stopping and time.monotonic() < deadline:
                if not worker.connection.poll(0.1):
                    continue
                message = worker.connection.recv()
                if not isinstance(message, Refusal):
                    return worker, ""
                why = message.reason.rstrip(".")
                break
        worker.hang_up()
        ended = _end(worker)
        return None, why if ended is None else f"{why} ({ended})"

    def _attend(self, worker: Worker) -> str:
        """Until it has ended; how it did."""
        while not self._stopping and self._employer.employs(worker):
            if (how := worker.join(0)) is not None:
                self._employer.dismiss(worker)
                return how
            if self._wants_spare and self._spare is None:
                self._spare = self._start(self._fd)
            self._wake.wait(LOOK_EVERY_S)
            self._wake.clear()
        worker.hang_up()
        self._employer.dismiss(worker)
        return _end(worker) or "it does not end"


def _end(worker: Worker) -> str | None:
    """How it ended, by itself or not; None: it hangs where nobody can reach it."""
    how = worker.join(STOP_S)
    if how is None:
        worker.kill()
        how = worker.join(STOP_S)
    return how
