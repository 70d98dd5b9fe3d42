"""A process that is started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0
STEADY_S = 30.0
"""A process that lived so long starts over with the first pause."""
SILENT_S = 10.0
"""A process that was ready and says nothing for so long hangs, and is killed."""
LOOK_EVERY_S = 0.5
REFUSAL = 2
"""Exit status of a process that says it cannot run here: it is not started again, unless it could
before."""


class ChildRefused(Exception):
    """A child ended saying that it cannot run; its own message is in the log."""


class Child:
    """Keeps `python -m MODULE ARGS… PID` running until it is stopped; PID is this process's.

    The child says `ready` on its stdout once it can work; `ready` is set from then until it dies.
    From then on it must say something, anything, within every `SILENT_S`.

    It is in a process group of its own: Ctrl-C in a terminal goes to the parent alone, which ends
    its children in order.
    """

    def __init__(
        self, name: str, module: str, args: Sequence[str], pass_fds: Sequence[int]
    ) -> None:
        self.name = name
        self.ready = asyncio.Event()
        self.restarts = 0
        self._command = (sys.executable, "-m", module, *args, str(os.getpid()))
        self._pass_fds = tuple(pass_fds)
        self._process: Process | None = None
        self._worked = False
        self._stopping = False
        self._silent_s = 0.0
        self._keep_task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._keep_task = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    async def wait_ready(self) -> None:
        """Until it is ready for the first time.

        Raises:
            ChildRefused: it cannot run here.
        """
        assert self._keep_task is not None
        ready = asyncio.create_task(self.ready.wait())
        try:
            await asyncio.wait({ready, self._keep_task}, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                self._keep_task.result()
        finally:
            ready.cancel()

    def send(self, number: signal.Signals) -> None:
        """A signal to the process, if there is one."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self, timeout_s: float) -> None:
        """SIGTERM, and SIGKILL for one that is not gone within the timeout."""
        self._stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            self.send(signal.SIGTERM)
            try:
                async with asyncio.timeout(timeout_s):
                    await process.wait()
            except TimeoutError:
                log.warning("%s did not stop within %.0f s and is killed", self.name, timeout_s)
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if self._keep_task is not None:
            self._keep_task.cancel()
            await asyncio.gather(self._keep_task, return_exceptions=True)

    async def _keep(self) -> None:
        pause_s = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while not self._stopping:
            began = loop.time()
            status = await self._run_once()
            if self._stopping:
                return
            if status == REFUSAL and not self._worked:
                raise ChildRefused(self.name)
            if loop.time() - began > STEADY_S:
                pause_s = FIRST_PAUSE_S
            log.error("%s died (status %d); it is started again", self.name, status)
            self.restarts += 1
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _run_once(self) -> int:
        # A reload that comes while the child starts waits until it has a handler: by default the
        # signal would end it. What is blocked stays so in what is started.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdout=PIPE, pass_fds=self._pass_fds, process_group=0
            )
        finally:
            # Not what was before: that may be another child's beginning.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        self._process = process
        assert process.stdout is not None
        watch = asyncio.create_task(self._kill_if_silent(process), name=f"watch {self.name}")
        try:
            while line := await process.stdout.readline():
                self._silent_s = 0.0
                if line.strip() == b"ready":
                    self._worked = True
                    self.ready.set()
            return await process.wait()
        finally:
            self.ready.clear()
            watch.cancel()

    async def _kill_if_silent(self, process: Process) -> None:
        # Its silence is counted in turns of this loop: when this process itself was stopped for a
        # while, no child is to blame.
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._stopping or not self.ready.is_set():
                continue
            self._silent_s += LOOK_EVERY_S
            if self._silent_s > SILENT_S:
                log.critical("%s has hung for %.0f s and is killed", self.name, SILENT_S)
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                return
