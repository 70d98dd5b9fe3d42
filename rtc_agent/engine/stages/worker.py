"""Where a code2wav runs: in a process of its own, or in a thread of this one."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Protocol

from rtc_agent.engine.stages.code2wav import MakeBank, serve
from rtc_agent.engine.stages.memory import Layout, StageMemory
from rtc_agent.engine.stages.plan import Code2WavPlan

log = logging.getLogger(__name__)

MODULE = "rtc_agent.processes.code2wav"


class Worker(Protocol):
    """A code2wav that was started and may still be loading."""

    @property
    def connection(self) -> Connection:
        """The talker's end of the pipe."""
        ...

    def hang_up(self) -> None:
        """Close the pipe's way in: a code2wav that works ends then. Callable from any thread."""
        ...

    def kill(self) -> None:
        """End it now, if that can be done. Idempotent, callable from any thread."""
        ...

    def join(self, timeout_s: float | None = None) -> str | None:
        """Wait until it has ended; how it did, or None if it has not within the timeout."""
        ...


Start = Callable[[int], Worker]
"""Starts one on the memory of a file descriptor."""


class ProcessWorker:
    """A code2wav in a process of its own.

    It ends by itself when this process does, and is in a process group of its own: Ctrl-C in a
    terminal goes to the server alone, which ends it in order.
    """

    def __init__(self, plan: Code2WavPlan, memory_fd: int) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            fd = theirs.fileno()
            self._process = subprocess.Popen(
                (sys.executable, "-m", MODULE, str(fd), str(memory_fd), str(os.getpid())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(fd, memory_fd),
                process_group=0,
            )
        with contextlib.suppress(OSError):
            self.connection.send(plan)

    @property
    def pid(self) -> int:
        return self._process.pid

    def hang_up(self) -> None:
        _hang_up(self.connection)

    def kill(self) -> None:
        self._process.kill()

    def join(self, timeout_s: float | None = None) -> str | None:
        try:
            return f"status {self._process.wait(timeout_s)}"
        except subprocess.TimeoutExpired:
            return None


class ThreadWorker:
    """A code2wav in a thread of this process, for another device. One that hangs can only be left
    to itself."""

    def __init__(self, load: Callable[[], MakeBank], banks: int, fd: int, layout: Layout) -> None:
        """
        Args:
            load: loads what is needed, in the thread.
        """
        self.connection, theirs = Pipe()
        self._abandoned = False
        self._thread = threading.Thread(
            target=_run, args=(theirs, load, banks, fd, layout), name="code2wav", daemon=True
        )
        self._thread.start()

    def hang_up(self) -> None:
        _hang_up(self.connection)

    def kill(self) -> None:
        self._abandoned = True
        self.hang_up()

    def join(self, timeout_s: float | None = None) -> str | None:
        if self._abandoned:
            return "its thread is left to itself"
        self._thread.join(timeout_s)
        return None if self._thread.is_alive() else "its thread ended"


def _run(
    connection: Connection,
    load: Callable[[], MakeBank],
    banks: int,
    fd: int,
    layout: Layout,
) -> None:
    memory = StageMemory(fd, layout)
    with connection:
        try:
            serve(connection, memory, load, banks)
        except Exception:
            log.exception("code2wav failed")
    memory.close()


def _hang_up(connection: Connection) -> None:
    # A closed descriptor would not wake whoever reads from it; a connection that is shut down does.
    with contextlib.suppress(OSError):
        with socket.socket(fileno=os.dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)
